"""Trainer: an ONNX file trained in a few lines, over training and inference sessions.

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
from popart._training_model import LossFunction, check_names, training_model
from popart._training_sessions import TrainingSessions
from popart.fitting import Data, History, Run, Settings
from popart.inference_form import inference_form
from popart.loading import Model, session_options
from popart.metrics import Metric, Metrics
from popart.schedules import Factor, Schedule
from popart.session import TrainingSession, _numpy_dtype, _require_kinds

# Arguments as Keras, Lightning and PyTorch have them.
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

    Reading gives a copy of the value as it is now; setting one changes it. Frozen weights are constants of the program:
    they can be read, and setting one is refused.
    """

    def __init__(self, trainer: "Trainer") -> None:
        self._trainer = trainer

    def _infos(self) -> dict[str, popart_core.TrainableTensor]:
        """What the session knows of each weight, in the order of the file."""
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
        frozen: Sequence[str] | None = None,
        trainable: Sequence[str] | None = None,
        precision: str | None = None,
        accumulation: int = 1,
        replicas: int = 1,
        recompute: bool | str = False,
        max_memory: int | str | None = None,
        num_threads: int | None = None,
        seed: int | None = None,
        outputs: Sequence[str] = (),
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
            frozen: Names or globs of weights that stay as they are.
            trainable: Names or globs of the only weights that train.
            precision: Element type of products and convolutions: ``"float32"``, ``"bfloat16"`` or ``"float16"``.
            accumulation: Micro-batches of an update. `fit` takes as many batches of the loader for each update.
            replicas: Copies of the program that work on parts of each micro-batch.
            recompute: Whether activations are computed again in the backward pass: True, or a ``RecomputationType`` by
                name.
            max_memory: Limit of device memory in bytes, or text such as ``"2G"``: above it activations are computed
                again or move off chip.
            num_threads: Threads that compute; None: all.
            seed: Of random numbers; None: another one each time.
            outputs: More tensors to return from each step: `results` has them.
            output: Output of the model that a loss by name takes; None: the only one, or the first of floats.
            loss_options: Arguments of a loss by name, such as ``{"label_smoothing": 0.1}``; also ``inputs``, tensors
                that the loss reads in place of inputs of its own (``popart.losses.attach``).
            train_batch_norm: Whether batch norms of a file that was exported for inference take the statistics of the
                batch and update the running ones, as after ``model.train()`` in PyTorch. Otherwise the file decides.
            inputs: Inputs in the order of tuples, or by key of dictionaries; None: those of the model, then those of
                the loss.
            max_shapes: How many programs are kept, one for each set of shapes.
            device: None: the CPU.
            options: Other members of ``SessionOptions`` by name.

        Raises:
            popart_exception: An unknown loss, weight or tensor; a model that cannot be read.
            TypeError: Arguments that the loss or the trainer does not have; no model, or no optimizer.
            FileNotFoundError: There is no such file.
        """
        _require_kinds("Trainer", optimizer=optimizer)
        self._model = training_model(model, loss, output, loss_options or {}, train_batch_norm)
        check_names("frozen", frozen or (), self._model.weights)
        check_names("trainable", trainable or (), self._model.weights)
        if accumulation < 1 or replicas < 1:
            raise popart_exception(
                f"Trainer: accumulation and replicas: got {accumulation} and {replicas}, expected 1 or more"
            )
        self._choice: dict[str, Any] = {
            key: list(value) for key, value in (("frozen", frozen), ("trainable", trainable)) if value is not None
        }
        self._optimizer = optimizer
        self._sent: dict[int, tuple[float | None, ...]] = {}  # learning rates that sessions have
        self._accumulation, self._replicas, self._recompute = accumulation, replicas, recompute
        self._common: dict[str, Any] = {
            "options": options,
            "max_memory": max_memory,
            "num_threads": num_threads,
            "max_shapes": max_shapes,
            "precision": precision,
        }
        self._anchors, self._device = list(outputs), device
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
        if self._recompute:
            kind = "Standard" if self._recompute is True else self._recompute
            options.autoRecomputation = getattr(popart_core.RecomputationType, kind)
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
        """The sessions, one of them in use: where no batch was seen, for the smallest one that the model takes."""
        if self._sessions.current is None:
            shapes = {i.name: [d if isinstance(d, int) else 1 for d in i.shape or ()] for i in self._model.inputs}
            self._sessions.use(shapes, 1, 1)
        return self._sessions

    @property
    def session(self) -> TrainingSession:
        """The training session in use.

        Raises:
            popart_exception: No batch was seen yet, and the model takes none of one sample.
        """
        return self._ready().session()

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs in the order of a batch's values: those of the model, then those of the loss."""
        return list(self._feed.order)

    @property
    def loss(self) -> str:
        """Name of the loss's tensor."""
        return self._model.loss

    @property
    def optimizer(self) -> popart_core.Optimizer:
        """The optimizer. One of the same form may take its place; ``optimizer.lr`` may change at any time."""
        return self._optimizer

    @optimizer.setter
    def optimizer(self, optimizer: popart_core.Optimizer) -> None:
        self._optimizer, self._plan = optimizer, None
        self._sent.clear()

    def _send_optimizer(self, plan: StepPlan) -> None:
        """Bring the session of a plan to the present learning rate."""
        optimizer, session = self._optimizer, plan.session
        if isinstance(optimizer, optim.Optimizer):
            plan.lr, plan.lr_factor = optimizer.lr, optimizer.lr_factor
        rates = (plan.lr, plan.lr_factor)
        if self._sent.get(id(session)) != rates:
            session.updateOptimizerFromHost(optimizer)
            self._sent[id(session)] = rates

    # ---- steps

    def _batched(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Those whose first dimension is open: it counts samples."""
        inputs = self._feed.inputs
        return {
            name: array
            for name, array in arrays.items()
            if array.ndim and isinstance((inputs[name].shape or ("?",))[0], str)
        }

    def samples(self, arrays: Mapping[str, np.ndarray]) -> int:
        """How many samples a batch has.

        Args:
            arrays: Arrays of the batch by input.

        Returns:
            The first dimension of the first array that is open there; 1 where none is.
        """
        return next((array.shape[0] for array in self._batched(arrays).values()), 1)

    def _parts(self, samples: int) -> tuple[int, int]:
        """Micro-batches and replicas of an update with so many samples.

        Returns:
            Those asked for; where they do not divide the samples, the fewest micro-batches on one replica that are no
            larger than usual.
        """
        asked = self._accumulation * self._replicas
        if samples % asked == 0:
            self._micro = max(self._micro, samples // asked)
            return self._accumulation, self._replicas
        usual = max(self._micro, samples // asked, 1)
        parts = next(n for n in range(1, samples + 1) if samples % n == 0 and samples // n <= usual)
        return parts, 1

    def _cut(self, arrays: Mapping[str, np.ndarray], parts: tuple[int, int]) -> dict[str, np.ndarray]:
        """Arrays with dimensions for micro-batches and replicas in front, where these are not 1."""
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
        """The plan of a step and the arrays that its session gets."""
        parts = self._parts(self.samples(arrays))
        cut = self._cut(arrays, parts)
        skip = sum(n != 1 for n in parts)
        session = self._sessions.use({name: array.shape[skip:] for name, array in cut.items()}, *parts)
        plan = StepPlan(self._feed, session, self._sessions.shapes, arrays, cut, self._model.loss, self._anchors)
        self._send_optimizer(plan)
        # other parts depend on the steps before, and arrays that are not batched are copied for each micro-batch
        is_usual = parts == (self._accumulation, self._replicas)
        self._plan = plan if is_usual and (skip == 0 or len(self._batched(arrays)) == len(arrays)) else None
        return plan, cut

    def step(self, batch: Any) -> float:
        """Update the weights once.

        Args:
            batch: All samples of the update, those of all its micro-batches: a dictionary by input, or a tuple of
                values in the order of `inputs`. Arrays of NumPy, PyTorch, or anything with DLPack.

        Returns:
            The mean loss of the samples. The tensors of ``outputs`` are in `results`, each as the session returns it:
            behind dimensions for micro-batches and replicas where these are not 1.

        Raises:
            popart_exception: Missing inputs, other types, shapes that the model does not take.
        """
        plan = self._plan
        if plan is not None and plan.shapes is self._sessions.shapes:
            cut = plan.cut(batch)
            if cut is not None:
                return self._run(plan, cut)
        return self._run(*self._prepared(self._feed.arrays(batch)))

    def _step(self, arrays: Mapping[str, np.ndarray]) -> float:
        """`step` with the arrays of the inputs by name."""
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
        metrics: Sequence[str | Metric] = (),
        patience: int | None = None,
        monitor: str | None = None,
        schedule: Schedule | Factor | None = None,
        checkpoint: str | Path | None = None,
        save_every: int = 0,
        restore_best: bool = False,
        log: Sequence[Any] = (),
        log_every: int = 50,
        on_step: Callable[[dict[str, Any]], Any] | None = None,
        on_epoch: Callable[[dict[str, Any]], Any] | None = None,
        progress: bool = True,
    ) -> History:
        """Train for some epochs.

        If the checkpoint exists, training resumes from it: the batches that it has seen are read from the data and
        skipped. The result has the bits of uninterrupted training if the data gives the same batches again. For data
        that is shuffled by epoch, give a function of the epoch, or an object with ``set_epoch``, which is called.

        Args:
            data: Iterable of batches, such as a DataLoader: dictionaries, tuples or single arrays. Or a function of the
                epoch that gives one. A last batch that is smaller trains as well, with its own mean loss; so do the
                last batches of an epoch when there are fewer than ``accumulation``.
            epochs: How often the data is walked through, with the epochs of the checkpoint.
            validate: Data to evaluate after each epoch.
            metrics: Of the validation: ``"accuracy"``, ``"top5"``, ``"mse"``, ``"mae"`` or functions of outputs and
                batch (``popart.metrics``).
            patience: Stop when `monitor` has not become better for so many epochs.
            monitor: Column of the history that says which epoch is best; None: ``val_loss``, without `validate`
                ``loss``.
            schedule: Factor of the learning rates by update: of ``popart.optim``, or a function of the update.
            checkpoint: Folder for ``last.safetensors``, written after each epoch, and ``best.safetensors``.
            save_every: Write the last one also after each of so many updates.
            restore_best: Whether the weights are those of the best epoch in the end.
            log: Loggers: anything with ``log(dict)``, functions, or names of .csv files (``popart.loggers``).
            log_every: How often they hear of updates; 0: only of epochs.
            on_step: Called after each update with ``epoch``, ``step``, ``update``, ``loss``, ``lr`` and ``results``;
                returning False stops.
            on_epoch: Called with the row of the history after each epoch; returning False stops.
            progress: Whether to show a line with loss, items per second and the time left.

        Returns:
            A row for each epoch: ``epoch``, ``update``, ``loss``, ``lr``, ``seconds``, ``items_per_second``, and of the
            validation ``val_loss`` and a ``val_…`` for each metric; ``history["loss"]`` is a column.

        Raises:
            popart_exception: As `step`; a checkpoint of another model; metrics without data to validate.
            ValueError: A schedule that needs the number of batches, of data that does not say it.
        """
        settings = Settings(
            epochs=epochs,
            validate=validate,
            metrics=metrics,
            patience=patience,
            monitor=monitor,
            schedule=schedule,
            checkpoint=None if checkpoint is None else Path(checkpoint),
            save_every=save_every,
            restore_best=restore_best,
            log=log,
            log_every=log_every,
            on_step=on_step,
            on_epoch=on_epoch,
            progress=progress,
        )
        return Run(self, data, settings).run()

    # ---- inference

    def _inference(self, with_loss: bool, args: Sequence[Any], named: Mapping[str, Any]) -> Model:
        """A model with the weights at hand, ready for these values of its inputs."""
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

    def evaluate(self, data: Iterable[Any], metrics: Sequence[str | Metric] = ()) -> dict[str, float]:
        """Loss and metrics of data, with the weights as they are and no training.

        Args:
            data: Batches as those of `fit`.
            metrics: As `fit`.

        Returns:
            By name: ``loss``, the mean over all samples, and the metrics.

        Raises:
            popart_exception: As `step`; an unknown metric.
        """
        counted, total, samples = Metrics(metrics, self._model.output, self._model.labels), 0.0, 0
        for batch in data:
            arrays = self._feed.arrays(batch)
            results = self._inference(True, (), arrays).run(arrays)
            size = self.samples(arrays)
            total += float(np.mean(results.pop(self._model.loss), dtype=np.float64)) * size
            samples += size
            counted.add(results, arrays, size)
        return {"loss": total / samples if samples else float("nan"), **counted.means()}

    def predict(self, *args: Any, **named: Any) -> Any:
        """The outputs of the model with its weights as they are: call as a model of ``popart.load``.

        Args:
            *args: Values of the model's inputs in order, or one dictionary.
            **named: Values by name.

        Returns:
            The array of the only output; several: a dictionary by name.

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
                with them, for another session to continue from.

        Raises:
            popart_exception: Another form; the file cannot be written.
        """
        self.session.modelToHost(str(path), form=form)

    def save_state(self, path: str | Path, facts: Mapping[str, Any] | None = None) -> None:
        """Write weights, optimizer state and the state of random numbers to a safetensors file.

        Args:
            path: The file.
            facts: What else to keep, as JSON takes it.
        """
        self._ready().save(path, facts or {})

    def load_state(self, path: str | Path) -> dict[str, Any]:
        """Restore what `save_state` wrote; training then continues with the same bits.

        Args:
            path: The file.

        Returns:
            The facts that were kept.

        Raises:
            popart_exception: A file of another model.
        """
        return self._ready().load(path)
