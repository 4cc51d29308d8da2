"""The program moxie, on one thread of the processor or on a GPU: values of a text for given inputs, and times for the same inputs."""
import json
import os
import subprocess
import tempfile

# They choose slower matrix products than the processor has.
MISLEADING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


class Moxie:
    def __init__(self, program, hidden=MISLEADING, device="cpu"):
        self.program, self.device = program, device
        self.environment = {name: value for name, value in os.environ.items() if name not in hidden}
        self.folder = tempfile.TemporaryDirectory()

    def run(self, *arguments):
        threads = [] if "--threads" in arguments or arguments[0] == "dump" else ["--threads", "1"]
        command = [self.program, *map(str, arguments), *threads]
        try:
            done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"moxie {arguments[0]} takes more than ten minutes") from None
        if done.returncode:
            raise RuntimeError(done.stderr.strip().replace("\n", " "))
        return done.stdout

    def options(self, text, grad, wrt):
        return [*text.dim_option(), "--grad", grad or ",".join(text.outputs), *(["--wrt", wrt] if wrt else [])]

    def values(self, text, tensors, grad="", wrt="", device=None):
        """Outputs and gradients for these inputs and cotangents, which seconds() takes, too."""
        from safetensors.numpy import load_file, save_file

        self.inputs, results = f"{self.folder.name}/in.safetensors", f"{self.folder.name}/out.safetensors"
        save_file(tensors, self.inputs)
        self.run("run", text.path, "--in", self.inputs, "--out", results, "--device", device or self.device, *self.options(text, grad, wrt))
        return load_file(results)

    def jacobian(self, text, tensors, of, wrt):
        """Outputs and all derivatives of one for these inputs, which jacobian_seconds() takes, too."""
        from safetensors.numpy import load_file, save_file

        self.inputs, results = f"{self.folder.name}/in.safetensors", f"{self.folder.name}/out.safetensors"
        save_file(tensors, self.inputs)
        self.run("run", text.path, "--in", self.inputs, "--out", results, "--device", self.device, *text.dim_option(), "--jacobian", of, "--wrt", wrt)
        return load_file(results)

    def jacobian_seconds(self, text, of, wrt):
        """Medians of the outputs, and of all derivatives of one: the text that moxie makes for them, which has outputs alone."""
        derived = f"{self.folder.name}/jacobian.mox"
        with open(derived, "w") as file:
            file.write(self.run("dump", text.path, "--stage", "diff", "--device", self.device, *text.dim_option(), "--jacobian", of, "--wrt", wrt))
        options = [*text.dim_option(), "--grad", of]  # one gradient, which is not looked at
        return tuple(self.bench(path, *options)[self.figure("forward")] for path in (text.path, derived))

    def bench(self, path, *options):
        [figures] = json.loads(self.run("bench", path, "--in", self.inputs, "--json", "--device", self.device, *options))
        return figures

    def figure(self, what):
        """Processor time is what one thread takes; a GPU's time passes on the clock."""
        return f"{what}_cpu_s" if self.device == "cpu" else f"{what}_s"

    def seconds(self, text, grad="", wrt=""):
        """Medians, forward and with gradients."""
        figures = self.bench(text.path, *self.options(text, grad, wrt))
        return figures[self.figure("forward")], figures[self.figure("forward_backward")]


def distance(found, expected, scale=0):
    """The largest difference, relative to the largest element or to `scale` if that is larger."""
    import numpy

    found, expected = numpy.asarray(found, numpy.float64), numpy.asarray(expected, numpy.float64)
    difference = numpy.abs(found.reshape(expected.shape) - expected).max(initial=0)
    return numpy.inf if numpy.isnan(difference) else difference / max(numpy.abs(expected).max(initial=0), scale, 1e-30)
