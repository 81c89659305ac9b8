"""Adds two streamed tensors and a variable in a hand-written graph, directly and through a subgraph."""

import numpy as np
import popxl
import popxl.ops as ops


def increase(x: popxl.Tensor, by: popxl.Tensor) -> popxl.Tensor:
    """Subgraph: ``x + by``."""
    return x + by


def main() -> None:
    """Build, print and run the program."""
    ir = popxl.Ir()
    with ir.main_graph:
        streams = [popxl.h2d_stream((2,), popxl.float32, name=name) for name in ("a", "b")]
        a, b = (ops.host_load(stream) for stream in streams)
        offset = popxl.variable(np.array([10, 20], np.float32), name="offset")
        graph = ir.create_graph(increase, a, offset)
        (raised,) = ops.call(graph, a + b, offset)
        result = popxl.d2h_stream(raised.shape, raised.dtype, name="result")
        ops.host_store(result, raised)
    print(graph)

    inputs = dict(zip(streams, np.array([[1, 2], [3, 4]], np.float32), strict=True))
    with popxl.Session(ir, "cpu") as session:
        print(session.run(inputs)[result])


if __name__ == "__main__":
    main()
