"""Inference on several devices: a thread and a session on each, fed from one queue, and one model cut over them all.

Both give the results of one device. With `--sharded` the layers of the model are spread over the IPUs of one device
and work as a pipeline.
"""

import argparse
import queue
import threading
import time

import numpy as np
import popart

FEATURES, LAYERS = 64, 8


def create_model(batch_size: int, shards: int = 1) -> tuple[bytes, str, str]:
    """Layers of matmul, add and relu; the layers of a shard are on one IPU."""
    rng = np.random.default_rng(0)
    builder = popart.Builder(opsets={"ai.onnx": 10, "ai.graphcore": 1})
    data = h = builder.addInputTensor(popart.TensorInfo("FLOAT", [batch_size, FEATURES]), "data")
    for layer in range(LAYERS):
        weight = rng.normal(0, FEATURES**-0.5, (FEATURES, FEATURES)).astype(np.float32)
        shard = layer * shards // LAYERS
        with builder.virtualGraph(shard), builder.pipelineStage(shard), builder.nameScope(f"layer{layer}"):
            w = builder.addInitializedInputTensor(weight, "weight")
            b = builder.addInitializedInputTensor(np.full(FEATURES, 0.01, np.float32), "bias")
            h = builder.aiOnnx.relu([builder.aiOnnx.add([builder.aiOnnx.matmul([h, w]), b])])
    builder.addOutputTensor(h)
    return builder.getModelProto(), data, h


class Worker(threading.Thread):
    """One device with its session; takes requests until the queue gives None."""

    def __init__(self, opts: argparse.Namespace, device: popart.DeviceInfo, shards: int, requests: queue.Queue) -> None:
        super().__init__()
        model, self.data, self.result = create_model(opts.batch_size, shards)
        options = popart.SessionOptions()
        if shards > 1:
            options.virtualGraphMode = popart.VirtualGraphMode.Manual
            options.enablePipelining = True
        self.session = popart.InferenceSession(
            fnModel=model,
            dataFlow=popart.DataFlow(opts.batches_per_step, {self.result: popart.AnchorReturnType("All")}),
            userOptions=options,
            deviceInfo=device,
        )
        self.session.prepareDevice()
        self.session.weightsFromHost()
        self.requests, self.results, self.served = requests, {}, 0

    def run(self) -> None:
        """Serve requests."""
        while (request := self.requests.get()) is not None:
            number, data = request
            anchors = self.session.initAnchorArrays()
            self.session.run(popart.PyStepIO({self.data: data}, anchors))
            self.results[number] = anchors[self.result]
            self.served += 1


def serve(workers: list[Worker], requests: queue.Queue, data: np.ndarray) -> tuple[list[np.ndarray], float]:
    """The results of all requests in their order, and the seconds they took."""
    for request in enumerate(data):
        requests.put(request)
    for _ in workers:
        requests.put(None)
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds = time.perf_counter() - start
    results = {number: result for worker in workers for number, result in worker.results.items()}
    return [results[number] for number in range(len(data))], seconds


def main() -> None:
    """Serve the same requests with one device and with several."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-ipus", type=int, default=4, help="a power of two (default: 4)")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--batches-per-step", type=int, default=8)
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--sharded", action="store_true", help="one model over all IPUs")
    opts = parser.parse_args()

    manager = popart.DeviceManager()
    data = np.random.default_rng(1).normal(size=(opts.requests, opts.batches_per_step, opts.batch_size, FEATURES))
    data = data.astype(np.float32)
    requests: queue.Queue = queue.Queue()
    with manager.acquireAvailableDevice(1) as device:
        expected, seconds = serve([Worker(opts, device, 1, requests)], requests, data)
        print(f"1 device: {opts.requests * opts.batches_per_step * opts.batch_size / seconds:.0f} samples/s")
    counts, shards = ([opts.num_ipus], opts.num_ipus) if opts.sharded else ([1] * opts.num_ipus, 1)
    devices = [manager.acquireAvailableDevice(count) for count in counts]
    workers = [Worker(opts, device, shards, requests) for device in devices]
    results, seconds = serve(workers, requests, data)
    print(f"{opts.num_ipus} IPUs: {opts.requests * opts.batches_per_step * opts.batch_size / seconds:.0f} samples/s")
    for device, worker in zip(devices, workers):
        print(f"   Device {device.id}: {device.numIpus} IPUs, {worker.served} requests")
        device.detach()
    equal = all(np.array_equal(result, other) for result, other in zip(results, expected, strict=True))
    print("Results are equal" if equal else "RESULTS DIFFER")


if __name__ == "__main__":
    main()
