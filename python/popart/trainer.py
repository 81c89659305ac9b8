"""Trainer: trains an ONNX file in a few lines, with training and inference sessions.

Example::

    trainer = popart.Trainer("resnet18.onnx", loss="cross_entropy", optimizer=popart.optim.AdamW(lr=1e-3))
    trainer.fit(loader, epochs=5, validate=validation, metrics=["accuracy"], patience=2)
    trainer.save("fine_tuned.onnx")
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import popart_core
from popart_core import (
    AnchorReturnType,
    DataFlow,
    DeviceInfo,
    DeviceManager,
    PyStepIO,
    PyWeightsIO,
    ReductionType,
    SessionOptions,
    popart_exception,
    popart_runtime_error,
)

from popart import optim
from popart._model_inputs import Feed
from popart._names import explain_keywords, nearest_names
from popart._step_plan import StepPlan
from popart._training_model import LossFunction, check_names, names_of, recomputation, training_model
from popart._training_sessions import TrainingSessions
from popart.fitting import Data, History, Run, Settings
from popart.inference_form import inference_form
from popart.loading import Model, session_options
from popart.metrics import Metric, Metrics, listed
from popart.schedules import Factor, Schedule
from popart.session import TrainingSession, _numpy_dtype, _require_kinds

# Arguments of Keras, Lightning and PyTorch, with their names here.
_OTHER_SETTINGS = {
    "lr": "give optimizer=popart.optim.AdamW(lr=...), or another one of popart.optim",
    "learning_rate": "give optimizer=popart.optim.AdamW(lr=...), or another one of popart.optim",
    "epochs": "give it to fit",
    "metrics": "give them to fit or evaluate",
    "callbacks": "give on_step, on_epoch or log to fit",
    "accumulate_grad_batches": "give accumulation",
    "gradient_accumulation_steps": "give accumulation",
    "gradient_clip_val": "give popart.optim.AdamW(clip_grad_norm=...)",
}
_OTHER_OF_FIT = {
    "validation_data": "give validate",
    "val_dataloaders": "give validate",
    "callbacks": "give on_step, on_epoch or log",
    "batch_size": "the data gives batches, as a DataLoader does",
    "scheduler": "give schedule, such as popart.optim.cosine(warmup=100)",
    "verbose": "give progress",
}


class Weights(MutableMapping[str, np.ndarray]):
    """Weights of a trainer by name: all floating-point initializers of the file, like ``state_dict()`` of PyTorch.

    Reading returns a copy of the current value; setting an item changes the weight. Frozen weights are constants of the
    program: they can be read; setting one raises an error.
    """

    def __init__(self, trainer: "Trainer") -> None:
        self._trainer = trainer

    def _infos(self) -> dict[str, popart_core.TrainableTensor]:
        """The session's facts about each weight, in the order of the file."""
        infos = {entry.name: entry for entry in self._trainer.session.trainableTensors()}
        # A statistic that the file has as an output of Identity is a tensor of its own in training.
        order = dict.fromkeys([*self._trainer._model.weights, *infos])
        return {name: infos[name] for name in order if name in infos}

    def __getitem__(self, name: str) -> np.ndarray:
        infos = self._infos()
        if name not in infos:
            raise KeyError(f"Trainer: the model has no weight '{name}'{nearest_names(name, infos)}")
        value = np.empty(infos[name].shape, _numpy_dtype(infos[name].type))
        self._trainer.session.readWeights(PyWeightsIO({name: value}))
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        old, new = self[name], np.asarray(value)
        if new.shape != old.shape:
            raise popart_runtime_error(
                f"Trainer: weight '{name}': got shape {list(new.shape)}, expected {list(old.shape)}"
            )
        if name not in self._trainer.session._variableIds():
            raise popart_runtime_error(
                f"Trainer: weight '{name}' does not train ({self._infos()[name].reason}): it is a constant of the "
                "program and cannot be set. Let it train, or make the trainer of a model that has the value "
                "(popart.weights.load)"
            )
        self._trainer._sessions.write({name: np.ascontiguousarray(new.astype(old.dtype))})

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"Trainer: weight '{name}' cannot be deleted. Set it")

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos())

    def __len__(self) -> int:
        return len(self._infos())


class Trainer:
    """Trains an ONNX file: adds a loss, derives the gradients, and compiles the whole step at the first batch."""

    @explain_keywords(_OTHER_SETTINGS)
    def __init__(
        self,
        model: Any,
        loss: str | LossFunction,
        optimizer: popart_core.Optimizer,
        *,
        frozen: Sequence[str] | str | None = None,
        trainable: Sequence[str] | str | None = None,
        precision: str | None = None,
        accumulation: int = 1,
        replicas: int = 1,
        recompute: bool | str = False,
        max_memory: int | str | None = None,
        num_threads: int | None = None,
        seed: int | None = None,
        outputs: Sequence[str] | str = (),
        output: str | None = None,
        loss_options: Mapping[str, Any] | None = None,
        train_batch_norm: bool = False,
        inputs: Sequence[str] | Mapping[Any, str] | None = None,
        max_shapes: int = 8,
        device: DeviceInfo | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Read the model and add the loss. The program is compiled at the first batch.

        Args:
            model: File name or bytes of an ONNX model, ``onnx.ModelProto``, or what ``torch.onnx.export`` returns. If
                all its inputs have the same fixed batch, it is opened.
            loss: Name of a loss (see ``popart.losses``), which takes the model's output and adds an input for labels;
                a function of a ``Builder`` that adds a loss and returns its tensor; or a tensor of the model.
            optimizer: One of ``popart.optim`` or of PopART's.
            frozen: Names or globs of weights that stay as they are, or one of them.
            trainable: Names or globs of the only weights that train, or one of them.
            precision: Element type of products and convolutions: ``"float32"``, ``"bfloat16"`` or ``"float16"``.
            accumulation: Micro-batches for each update. `fit` takes as many batches of the loader for each update.
            replicas: Copies of the program, each for a part of every micro-batch.
            recompute: Whether activations are computed again in the backward pass: True, or a ``RecomputationType`` by
                name.
            max_memory: Limit of device memory in bytes, or text such as ``"2G"``: if the program needs more,
                activations are computed again or moved off chip.
            num_threads: Number of compute threads; None: one for each core that the process may use.
            seed: Seed of random numbers; None: a different one each time.
            outputs: Additional tensors to return from each step, in `results`.
            output: Output of the model that a named loss reads; None: the only one, or the first with floats.
            loss_options: Arguments of a named loss, such as ``{"label_smoothing": 0.1}``; also ``inputs``, tensors
                that the loss reads instead of new inputs (``popart.losses.attach``).
            train_batch_norm: Whether batch norms of a file that was exported for inference use the statistics of the
                batch and update the running ones, as after ``model.train()`` in PyTorch. Otherwise the file decides.
            inputs: Inputs in the order of the values of tuples, or by key of dictionaries; None: those of the model,
                then those of the loss.
            max_shapes: Number of compiled programs to keep, one for each set of input shapes.
            device: Device to run on; None: the CPU.
            options: Other members of ``SessionOptions`` by name.

        Raises:
            popart_exception: An unknown loss, weight, tensor or option; a model that cannot be read.
            TypeError: An argument is unknown, or there is no model or no optimizer.
            FileNotFoundError: The file does not exist.
        """
        _require_kinds("Trainer", optimizer=optimizer)
        self._model = training_model(model, loss, output, loss_options or {}, train_batch_norm)
        check_names("frozen", names_of(frozen), self._model.weights)
        check_names("trainable", names_of(trainable), self._model.weights)
        if accumulation < 1 or replicas < 1:
            raise popart_exception(
                f"Trainer: accumulation and replicas: got {accumulation} and {replicas}, expected 1 or more"
            )
        if accumulation * replicas > 1 and not any(entry.is_open for entry in self._model.inputs):
            shapes = ", ".join(f"'{i.name}' {list(i.shape or ())}" for i in self._model.inputs)
            raise popart_exception(
                f"Trainer: accumulation and replicas: got {accumulation} and {replicas}, expected 1, as no input has "
                f"an open first dimension: {shapes}. Export the model with an open batch"
            )
        self._choice: dict[str, Any] = {
            key: names_of(value) for key, value in (("frozen", frozen), ("trainable", trainable)) if value is not None
        }
        self._optimizer = optimizer
        self._sent: dict[int, tuple[float | None, ...]] = {}  # learning rates that sessions have
        self._accumulation, self._replicas, self._recompute = accumulation, replicas, recomputation(recompute)
        self._common: dict[str, Any] = {
            "options": options,
            "max_memory": max_memory,
            "num_threads": num_threads,
            "max_shapes": max_shapes,
            "precision": precision,
        }
        session_options(**self._common)  # refused here, not at the first batch
        self._anchors, self._device = names_of(outputs), device
        self._feed = Feed("Trainer", self._model.inputs, inputs)
        self._sessions = TrainingSessions(self._session_of, seed)
        self._plan: StepPlan | None = None  # of the last step, where the next one may be like it
        self._micro = 0  # largest micro-batch of a replica so far
        self._evaluation: dict[bool, tuple[Model, int]] = {}
        self.weights = Weights(self)
        self.results: dict[str, np.ndarray] = {}

    def __repr__(self) -> str:
        return f"<popart.Trainer: {', '.join(self.inputs)} -> {self._model.loss}>"

    def _repr_html_(self) -> str:
        """A table in a notebook: inputs with types and shapes, loss, outputs and weights."""
        from popart._notebook import facts_html, listed

        inputs = [(f"input {one.name}", one) for one in self._feed.inputs.values()]
        facts = [("loss", self._model.loss), ("outputs", listed(self._anchors)), ("weights", len(self._model.weights))]
        return facts_html("popart.Trainer", [*inputs, *facts])

    # ---- the program

    def _session_of(self, accumulation: int, replicas: int) -> TrainingSession:
        options = session_options(**self._common)
        options.accumulationAndReplicationReductionType = ReductionType.Mean
        if accumulation > 1:
            options.enableGradientAccumulation, options.accumulationFactor = True, accumulation
        if replicas > 1:
            options.enableReplicatedGraphs, options.replicatedGraphCount = True, replicas
        options.autoRecomputation = self._recompute
        anchors = dict.fromkeys([self._model.loss, *self._anchors], AnchorReturnType("All"))
        session = TrainingSession(
            self._model.proto,
            DataFlow(1, anchors),
            self._model.loss,
            self._optimizer,
            self._device if self._device is not None else DeviceManager().createCpuDevice(),
            userOptions=options,
            name="trainer",
            **self._choice,
        )
        session.prepareDevice()
        session.weightsFromHost()
        return session

    def _ready(self) -> TrainingSessions:
        """The sessions, one of them in use: where no batch was seen, for the shapes of the file."""
        if self._sessions.current is None:
            self._sessions.use(self._model.shapes, 1, 1)
        return self._sessions

    @property
    def session(self) -> TrainingSession:
        """The training session in use.

        Raises:
            popart_exception: No batch was seen yet, and the model does not take 1 for each open dimension.
        """
        return self._ready().session()

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs in the order of a batch's values: those of the model, then those of the loss."""
        return list(self._feed.order)

    @property
    def loss(self) -> str:
        """Name of the loss tensor."""
        return self._model.loss

    @property
    def optimizer(self) -> popart_core.Optimizer:
        """The optimizer. You may assign another one of the same class, and set ``optimizer.lr``, at any time."""
        return self._optimizer

    @optimizer.setter
    def optimizer(self, optimizer: popart_core.Optimizer) -> None:
        self._optimizer, self._plan = optimizer, None
        self._sent.clear()

    def _send_optimizer(self, plan: StepPlan) -> None:
        """Send the current learning rate to the session of a plan."""
        optimizer, session = self._optimizer, plan.session
        if isinstance(optimizer, optim.Optimizer):
            plan.lr, plan.lr_factor = optimizer.lr, optimizer.lr_factor
        rates = (plan.lr, plan.lr_factor)
        if self._sent.get(id(session)) != rates:
            session.updateOptimizerFromHost(optimizer)
            self._sent[id(session)] = rates

    # ---- steps

    def _batched(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays whose first dimension is open: the dimension counts samples."""
        inputs = self._feed.inputs
        return {name: array for name, array in arrays.items() if array.ndim and inputs[name].is_open}

    def samples(self, arrays: Mapping[str, np.ndarray]) -> int:
        """Return the number of samples of a batch.

        Args:
            arrays: Arrays of the batch by input.

        Returns:
            The first dimension of the first array whose input leaves it open; 1 if there is no such input.
        """
        return next((array.shape[0] for array in self._batched(arrays).values()), 1)

    def _parts(self, samples: int) -> tuple[int, int]:
        """Micro-batches and replicas for an update of this many samples.

        Returns:
            The numbers of the settings. If they do not divide the samples: one replica, and the fewest micro-batches
            that are not larger than usual.
        """
        asked = self._accumulation * self._replicas
        if samples % asked == 0:
            self._micro = max(self._micro, samples // asked)
            return self._accumulation, self._replicas
        usual = max(self._micro, samples // asked, 1)
        parts = next(n for n in range(1, samples + 1) if samples % n == 0 and samples // n <= usual)
        return parts, 1

    def _cut(self, arrays: Mapping[str, np.ndarray], parts: tuple[int, int]) -> dict[str, np.ndarray]:
        """Add dimensions for micro-batches and replicas in front of arrays, where these numbers are not 1."""
        front = tuple(n for n in parts if n != 1)
        if not front:
            return dict(arrays)
        batched, count = self._batched(arrays), parts[0] * parts[1]
        cut = {}
        for name, array in arrays.items():
            if name in batched:
                if array.shape[0] % count:
                    raise popart_runtime_error(
                        f"Trainer: '{name}': got {array.shape[0]} samples, expected a multiple of {count}, as of the "
                        "other inputs"
                    )
                cut[name] = array.reshape(*front, array.shape[0] // count, *array.shape[1:])
            else:
                cut[name] = np.ascontiguousarray(np.broadcast_to(array, (*front, *array.shape)))
        return cut

    def prepare(self, batch: Any) -> None:
        """Compile the program for a batch, without training on it.

        Args:
            batch: As `step`.

        Raises:
            popart_exception: As `step`.
        """
        self._prepared(self._feed.arrays(batch))

    def _prepared(self, arrays: Mapping[str, np.ndarray]) -> tuple[StepPlan, dict[str, np.ndarray]]:
        """The plan of a step, and the arrays to run its session with."""
        for name, array in self._batched(arrays).items():
            if array.shape[0] == 0:
                raise popart_runtime_error(
                    f"Trainer: '{name}': got no samples, expected 1 or more: shape {list(array.shape)}"
                )
        parts = self._parts(self.samples(arrays))
        cut = self._cut(arrays, parts)
        skip = sum(n != 1 for n in parts)
        session = self._sessions.use({name: array.shape[skip:] for name, array in cut.items()}, *parts)
        plan = StepPlan(self._feed, session, self._sessions.shapes, arrays, cut, self._model.loss, self._anchors)
        self._send_optimizer(plan)
        # the numbers of parts depend on the steps before, and unbatched arrays are copied for each micro-batch
        is_usual = parts == (self._accumulation, self._replicas)
        self._plan = plan if is_usual and (skip == 0 or len(self._batched(arrays)) == len(arrays)) else None
        return plan, cut

    def step(self, batch: Any) -> float:
        """Update the weights once.

        Args:
            batch: All samples of the update, including all its micro-batches: a dictionary by input, or a tuple of
                values in the order of `inputs`. Arrays of NumPy, PyTorch, or any library with DLPack.

        Returns:
            The mean loss of the samples. The tensors of ``outputs`` are in `results`. As in a session, they have
            leading dimensions for micro-batches and replicas where these numbers are not 1.

        Raises:
            popart_exception: An input is missing, or has a type or shape that the model does not take.
        """
        plan = self._plan
        if plan is not None and plan.shapes is self._sessions.shapes:
            cut = plan.cut(batch)
            if cut is not None:
                return self._run(plan, cut)
        return self._run(*self._prepared(self._feed.arrays(batch)))

    def _step(self, arrays: Mapping[str, np.ndarray]) -> float:
        """Run `step` with arrays by input name."""
        plan = self._plan
        if plan is not None and plan.shapes is self._sessions.shapes:
            cut = plan.cut([arrays[name] for name in self._feed.order])
            if cut is not None:
                return self._run(plan, cut)
        return self._run(*self._prepared(arrays))

    def _run(self, plan: StepPlan, cut: Mapping[str, np.ndarray]) -> float:
        optimizer = self._optimizer
        if plan.lr is not None and (optimizer.lr != plan.lr or optimizer.lr_factor != plan.lr_factor):
            self._send_optimizer(plan)
        results = plan.results()
        plan.session.run(PyStepIO(cut, results))
        self._sessions.version += 1
        if self._anchors:
            self.results = {name: results[name] for name in self._anchors}
        return plan.mean_loss(results)

    @explain_keywords(_OTHER_OF_FIT)
    def fit(
        self,
        data: Data,
        epochs: int = 1,
        *,
        validate: Data | None = None,
        metrics: Sequence[str | Metric] | str | Metric = (),
        patience: int | None = None,
        monitor: str | None = None,
        mode: Literal["min", "max"] | None = None,
        schedule: Schedule | Factor | None = None,
        checkpoint: str | Path | None = None,
        save_every: int = 0,
        restore_best: bool = False,
        log: Any = (),
        log_every: int = 50,
        on_step: Callable[[dict[str, Any]], Any] | None = None,
        on_epoch: Callable[[dict[str, Any]], Any] | None = None,
        progress: bool = True,
    ) -> History:
        """Train for some epochs.

        If the checkpoint exists, training resumes from it: batches that were already used are read from the data and
        skipped. If the data returns the same batches again, the result is bit by bit that of uninterrupted training.
        For data that is shuffled for each epoch, pass a function of the epoch, or an object with ``set_epoch``.

        Args:
            data: Iterable of batches, such as a DataLoader: dictionaries, tuples or single arrays. Or a function of the
                epoch that returns one. A smaller last batch also trains, with its own mean loss. So do the last batches
                of an epoch if there are fewer than ``accumulation``.
            epochs: Number of epochs in all, including those of the checkpoint.
            validate: Data to evaluate after each epoch.
            metrics: Metrics of the validation: ``"accuracy"``, ``"top5"``, ``"mse"``, ``"mae"`` or functions of outputs
                and batch (``popart.metrics``).
            patience: Stop after this many epochs without improvement of `monitor`.
            monitor: Column of the history that decides which epoch is best; None: ``val_loss``, or ``loss`` without
                `validate`.
            mode: Whether the smallest or the largest value of `monitor` is best; None: ``"max"`` for accuracy and
                top5, else ``"min"``. Needed for a metric that is a function.
            schedule: Factor of the learning rates for each update: from ``popart.optim``, or a function of the update.
            checkpoint: Folder for ``last.safetensors``, written after each epoch, and ``best.safetensors``.
            save_every: Also write ``last.safetensors`` each time after this many updates.
            restore_best: Whether to return to the weights of the best epoch at the end.
            log: Loggers: anything with ``log(dict)``, functions, or names of .csv files (``popart.loggers``).
            log_every: Call the loggers after this many updates, and after each epoch; 0: only after each epoch.
            on_step: Called after each update with ``epoch``, ``step``, ``update``, ``loss``, ``lr`` and ``results``;
                returning False stops.
            on_epoch: Called with the row of the history after each epoch; returning False stops.
            progress: Whether to show a line with loss, items per second and the time left.

        Returns:
            A row for each epoch: ``epoch``, ``update``, ``loss``, ``lr``, ``seconds``, ``items_per_second``, and from
            the validation ``val_loss`` and one ``val_…`` for each metric. ``history["loss"]`` is a column.

        Raises:
            popart_exception: As `step`; a checkpoint of another model; metrics without data to validate; an unknown
                metric, or one to monitor that does not say what is best.
            ValueError: The schedule needs the number of batches, and the data has no length.
        """
        settings = Settings(
            epochs=epochs,
            validate=validate,
            metrics=listed(metrics),
            patience=patience,
            monitor=monitor,
            mode=mode,
            schedule=schedule,
            checkpoint=None if checkpoint is None else Path(checkpoint),
            save_every=save_every,
            restore_best=restore_best,
            log=listed(log),
            log_every=log_every,
            on_step=on_step,
            on_epoch=on_epoch,
            progress=progress,
        )
        return Run(self, data, settings).run()

    # ---- inference

    def _inference(self, with_loss: bool, args: Sequence[Any], named: Mapping[str, Any]) -> Model:
        """A model with the current weights, for these values of its inputs."""
        if with_loss not in self._evaluation:
            options = self._inference_options()
            chosen = [*self._model.outputs, self._model.loss] if with_loss else self._model.outputs
            # the network alone does not ask for labels
            proto = self._model.proto if with_loss else inference_form(self._model.source, outputs=chosen)
            self._evaluation[with_loss] = Model(proto, chosen, options, self._device, "Trainer"), -1
        model, version = self._evaluation[with_loss]
        if version != self._sessions.version and self._sessions.current is not None:
            model.set_weights(self._sessions.values(), *args, **named)
            self._evaluation[with_loss] = model, self._sessions.version
        return model

    def _inference_options(self) -> SessionOptions:
        options = session_options(**self._common)
        options.constantWeights = False
        return options

    def evaluate(self, data: Iterable[Any], metrics: Sequence[str | Metric] | str | Metric = ()) -> dict[str, float]:
        """Compute the loss and metrics of data with the current weights, without training.

        Args:
            data: Batches as those of `fit`.
            metrics: As `fit`.

        Returns:
            A dictionary with ``loss``, the mean over all samples, and the metrics.

        Raises:
            popart_exception: As `step`; an unknown metric; data without batches.
        """
        counted, total, samples = Metrics(listed(metrics), self._model.output, self._model.labels), 0.0, 0
        for batch in data:
            arrays = self._feed.arrays(batch)
            results = self._inference(True, (), arrays).run(arrays)
            size = self.samples(arrays)
            total += float(np.mean(results.pop(self._model.loss), dtype=np.float64)) * size
            samples += size
            counted.add(results, arrays, size)
        if samples == 0:
            raise popart_runtime_error(
                "evaluate: the data has no batches. An iterator is at its end after one epoch: give a list, a "
                "DataLoader, or a function that makes one"
            )
        return {"loss": total / samples, **counted.means()}

    def predict(self, *args: Any, **named: Any) -> Any:
        """Compute the outputs of the model with the current weights. Call it as a model of ``popart.load``.

        Args:
            *args: Values of the model's inputs in order, or one dictionary.
            **named: Values by name.

        Returns:
            The array of the only output, or a dictionary by name if there are several.

        Raises:
            popart_exception: As `step`.
        """
        if len(args) == 1 and isinstance(args[0], Mapping):
            named, args = dict(args[0]), ()
        return self._inference(False, args, named)(*args, **named)

    # ---- files

    def save(self, path: str | Path, form: Literal["inference", "training"] = "inference") -> None:
        """Write the model with its weights as an ONNX file.

        Args:
            path: The file.
            form: ``"inference"``: the outputs of the file, without loss, labels and optimizer state; ``"training"``:
                with these, so that another session can continue.

        Raises:
            popart_exception: `form` is neither of the two, or the file cannot be written.
        """
        self.session.modelToHost(str(path), form=form)

    def save_state(self, path: str | Path, facts: Mapping[str, Any] | None = None) -> None:
        """Write weights, optimizer state and the state of random numbers to a safetensors file.

        Args:
            path: The file.
            facts: Further facts to store, as JSON values.
        """
        self._ready().save(path, facts or {})

    def load_state(self, path: str | Path) -> dict[str, Any]:
        """Restore what `save_state` wrote; training then continues as if it had not stopped, bit by bit.

        Args:
            path: The file.

        Returns:
            The facts that were stored.

        Raises:
            popart_exception: The file is of another model.
        """
        return self._ready().load(path)
