"""popxl_addons.recompute_graph: the same gradients with the activations computed again, in less memory."""

import numpy as np
import popxl
import popxl.ops as ops
import popxl_addons as addons
import pytest

RNG = np.random.default_rng(40)
WIDTH, LAYERS, DEPTH = 32, 4, 6


class Block(addons.Module):
    """A chain of products and activations."""

    def build(self, x):
        for i in range(DEPTH):
            w = self.add_variable_input(
                f"w{i}", lambda: RNG.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32), x.dtype
            )
            x = ops.gelu(x @ w)
        return x


def gradients(recomputes, data, weights):
    """Gradient of the input and of the first block's weights after a chain of blocks, and the planned memory."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(data)
        factories, forward = Block().create_graph(x.spec)
        backward = forward.autodiff()
        if recomputes:
            backward = addons.recompute_graph(backward)
        info = backward.grad_graph_info
        calls, tensors, h = [], [], x
        for layer in range(LAYERS):
            bound = factories.init(f"layer{layer}")
            tensors.append(bound)
            calls.append(forward.bind(bound).call_with_info(h))
            h = calls[-1].outputs[0]
        gradient = popxl.constant(np.ones(h.shape, np.float32))
        first = {}
        for layer in reversed(range(LAYERS)):
            call = backward.call_with_info(gradient, args=info.inputs_dict(calls[layer]))
            grads = info.fwd_parent_ins_to_grad_parent_outs(calls[layer], call)
            gradient = grads[x if layer == 0 else calls[layer - 1].outputs[0]]
            first = {name: grads[t] for name, t in tensors[layer].to_dict().items()}
        streams = {}
        for name, t in {"x": gradient, **first}.items():
            streams[name] = popxl.d2h_stream(t.shape, t.dtype)
            ops.host_store(streams[name], t)
    with popxl.Session(ir, "cpu") as session:
        values = {t: weights[layer][name] for layer in range(LAYERS) for name, t in tensors[layer].to_dict().items()}
        session.write_variables_data(values)
        results = session.run()
        arena = int(session._pb_session.core.summary().split()[1])
    return {name: results[stream] for name, stream in streams.items()}, arena


def test_the_same_gradients_in_less_memory():
    data = RNG.normal(size=(256, WIDTH)).astype(np.float32)
    weights = [
        {f"w{i}": RNG.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32) for i in range(DEPTH)}
        for _ in range(LAYERS)
    ]
    plain, plain_arena = gradients(False, data, weights)
    again, arena = gradients(True, data, weights)
    for name, value in plain.items():
        np.testing.assert_array_equal(again[name], value)
    assert arena < 0.6 * plain_arena


def test_inputs_and_names():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones((2, WIDTH), np.float32))
        _, forward = Block().create_graph(x.spec)
        backward = forward.autodiff()
        again = addons.recompute_graph(backward)
    info = again.grad_graph_info
    assert again.graph.name.startswith(addons.suffix_graph_name(backward.graph.name, "recomp"))
    assert info.forward_graph == forward.graph
    assert set(info.inputs) == {*forward.graph.inputs, forward.graph.outputs[0]}  # no activations
    assert info.outputs == backward.grad_graph_info.outputs
    assert len(again.graph.inputs) == len(info.inputs)
    with pytest.raises(AttributeError, match="grad_graph_info"):
        addons.recompute_graph(forward)
