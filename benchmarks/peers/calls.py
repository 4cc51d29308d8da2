"""What the peers run, on one thread or a GPU: forward(..) and gradients(..) make calls that give the outputs, and the outputs with the gradients by name.

A call returns when its values are there. Products of single floats have their precision everywhere: none is a TensorFloat-32."""
import os


def one_cpu_client():
    """JAX sizes its pool by the processors that it may use at the start: one, which may be any of them afterwards."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    import jax

    jax.devices()
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), allowed)
    return jax


class Jax:
    name, key = "JAX", "jax"

    def __init__(self, device):
        if device == "cpu":
            self.jax = one_cpu_client()
        else:
            import jax

            self.jax = jax
            jax.config.update("jax_default_matmul_precision", "highest")

    def forward(self, function, inputs):
        arrays, run = self.jax.device_put(inputs), self.jax.jit(lambda arrays: function(**arrays))
        return lambda: self.jax.block_until_ready(run(arrays))

    def jacobian(self, function, inputs):
        return self.forward(function, inputs)

    def gradients(self, function, inputs, cotangents, wrt, chosen):
        arrays, weights = self.jax.device_put((inputs, cotangents))
        params, rest = {name: arrays[name] for name in wrt}, {name: arrays[name] for name in arrays if name not in wrt}

        def both(params, rest, weights):
            def split(params):
                outputs = function(**params, **rest)
                return tuple(outputs[i] for i in chosen), outputs

            _, pullback, outputs = self.jax.vjp(split, params, has_aux=True)
            return outputs, pullback(weights)[0]

        run = self.jax.jit(both)
        return lambda: self.jax.block_until_ready(run(params, rest, weights))


class Torch:
    name, key = "PyTorch", "torch"

    def __init__(self, device):
        import torch

        self.torch, self.device = torch, device
        if device == "cpu":
            torch.set_num_threads(1)
        elif not torch.cuda.is_available():
            raise SystemExit("PyTorch sees no GPU: run on a machine that has one, with the wheels of JAX and PyTorch for it, or leave out --device")
        else:
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        torch.set_default_device(device)

    def tensors(self, arrays):
        return {name: self.torch.from_numpy(array).to(self.device) for name, array in arrays.items()}

    def wait(self):
        if self.device != "cpu":
            self.torch.cuda.synchronize()

    def forward(self, function, inputs):
        arrays = self.tensors(inputs)

        def run():
            with self.torch.inference_mode():
                outputs = function(**arrays)
                self.wait()
                return outputs

        return run

    def jacobian(self, function, inputs):
        arrays = self.tensors(inputs)

        def run():
            found = [of.detach() for of in function(**arrays)]
            self.wait()
            return found

        return run

    def gradients(self, function, inputs, cotangents, wrt, chosen):
        arrays, weights = self.tensors(inputs), list(self.tensors(dict(enumerate(cotangents))).values())
        params = {name: arrays[name].clone().requires_grad_() for name in wrt}

        def run():
            outputs = function(**(arrays | params))
            found = self.torch.autograd.grad([outputs[i] for i in chosen], list(params.values()), weights)
            self.wait()
            return [output.detach() for output in outputs], dict(zip(params, found))

        return run
