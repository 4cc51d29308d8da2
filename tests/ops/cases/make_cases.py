"""Writes the golden cases of this folder, one for each operation: python3 make_cases.py [OPERATION...]. It needs mpmath.

Values come from the definitions in 40 digits, gradients from central differences of them. An evaluation in single precision that follows the
formula may be off by 1e-5 in values and by 2e-5 in gradients: the cases are small, and none loses digits.
"""
import gpn
import gpn_networks
import layers
import maps
import recurrent
import training

if __name__ == "__main__":
    for room in (layers, maps, training, gpn, gpn_networks, recurrent):
        room.write_all()
