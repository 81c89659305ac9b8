"""Trains a two-layer classifier of 28x28 images with PopXL and its add-ons; the optimizer is part of the graph.

The forward graph comes from a Module, the backward graph from autodiff; the update is gradient descent with momentum,
in place on the variables.
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np
import popart.data
import popxl
import popxl.ops as ops
import popxl_addons as addons

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
WINDOW = 50  # batches whose losses are averaged for a printed line


def normal(seed: int, std: float, shape: tuple[int, ...]) -> np.ndarray:
    """Normally distributed values, the same for the same seed."""
    return np.random.default_rng(seed).normal(0, std, shape)


class Dense(addons.Module):
    """A dense layer: ``x @ weight + bias``."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Build the graph of the layer."""
        std = float(np.sqrt(2 / x.shape[-1]))
        shape = (x.shape[-1], self.features)
        weight = self.add_variable_input("weight", partial(normal, self.features, std, shape), x.dtype)
        bias = self.add_variable_input("bias", partial(np.zeros, self.features), x.dtype)
        return x @ weight + bias


class Classifier(addons.Module):
    """Two dense layers with ReLU between them."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.scores = Dense(128), Dense(10)

    def build(self, images: popxl.Tensor) -> popxl.Tensor:
        """Scores of the ten classes."""
        return self.scores(ops.relu(self.hidden(images.reshape((images.shape[0], -1)))))


def training_program(batch: int, learning_rate: float, momentum: float) -> tuple:
    """Session, input streams, loss stream and variables of the training program."""
    ir = popxl.Ir()
    with ir.main_graph:
        image_stream = popxl.h2d_stream((batch, 28, 28), popxl.float32, "images")
        label_stream = popxl.h2d_stream((batch,), popxl.int32, "labels")
        images, labels = ops.host_load(image_stream), ops.host_load(label_stream)
        factories, forward = Classifier().create_graph(images)
        backward = addons.autodiff(forward)
        variables = factories.init()
        call = forward.bind(variables).call_with_info(images)
        loss, gradient = addons.ops.cross_entropy_with_grad(call.outputs[0], labels)
        back_call = backward.call_with_info(gradient, args=backward.grad_graph_info.inputs_dict(call))
        gradients = backward.grad_graph_info.fwd_parent_ins_to_grad_parent_outs(call, back_call)
        for variable in variables.tensors:
            velocity = popxl.variable(np.zeros(variable.shape, np.float32), name=f"{variable.name}_velocity")
            with popxl.in_sequence():  # the update reads the velocity after its change
                ops.scaled_add_(velocity, gradients[variable], a=momentum, b=1.0)
                ops.scaled_add_(variable, velocity, b=-learning_rate)
        loss_stream = popxl.d2h_stream(loss.shape, loss.dtype, "loss")
        ops.host_store(loss_stream, loss)
    return popxl.Session(ir, "ipu_hw"), (image_stream, label_stream), loss_stream, variables


def test_program(batch: int) -> tuple:
    """Session, input stream, output stream and variables of the test program."""
    ir = popxl.Ir()
    with ir.main_graph:
        image_stream = popxl.h2d_stream((batch, 28, 28), popxl.float32, "images")
        images = ops.host_load(image_stream)
        factories, forward = Classifier().create_graph(images)
        variables = factories.init()
        (scores,) = forward.bind(variables).call(images)
        score_stream = popxl.d2h_stream(scores.shape, scores.dtype, "scores")
        ops.host_store(score_stream, scores)
    return popxl.Session(ir, "ipu_hw"), image_stream, score_stream, variables


def main() -> None:
    """Train, copy the weights, test."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=FASHION_MNIST, help="folder with MNIST's files")
    parser.add_argument("--images", type=int, default=20000, help="training images to use (default: 20000)")
    args = parser.parse_args()
    train = popart.data.load_images(args.data, "train").first(args.images)
    test = popart.data.load_images(args.data, "test").first(2000)
    normalisation = popart.data.Normalisation.of(train.images)

    session, inputs, loss_stream, variables = training_program(batch=16, learning_rate=0.01, momentum=0.9)
    batches = popart.data.Batches(train, 16, seed=0, normalisation=normalisation)
    losses = []
    with session:
        for images, labels in batches.epoch(0):
            losses.append(session.run(dict(zip(inputs, (images[0], labels[0]), strict=True)))[loss_stream])
            if len(losses) % WINDOW == 0:
                print(f"batches to {len(losses)}: loss {np.mean(losses[-WINDOW:]):.4f}")
    values = session.get_tensors_data(variables.tensors)

    session, image_stream, score_stream, test_variables = test_program(batch=50)
    mapping = variables.to_mapping(test_variables)
    session.write_variables_data({ours: values[trained].copy() for trained, ours in mapping.items()})
    hits = []
    with session:
        for images, labels in popart.data.Batches(test, 50, normalisation=normalisation).epoch():
            scores = session.run({image_stream: images[0]})[score_stream]
            hits.append(scores.argmax(1) == labels[0])
    print(f"accuracy on {len(test)} test images: {100 * np.mean(hits):.1f} %")


if __name__ == "__main__":
    main()
