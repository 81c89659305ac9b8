"""Trainer: trains an ONNX file in a few lines, with training and inference sessions.

Example::

    trainer = popart.Trainer("resnet18.onnx", loss="cross_entropy", optimizer=popart.optim.AdamW(lr=1e-3))
    trainer.fit(loader, epochs=5, validate=validation, metrics=["accuracy"], patience=2)
    trainer.save("fine_tuned.onnx")
"""

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    ReductionType,
    SessionOptions,
    popart_exception,
    popart_runtime_error,
)

from popart import optim
from popart._arguments import file_path, flag, function, mapping, names, one_of, optional, text, whole
from popart._batch_division import Division
from popart._loss_parts import factors_of
from popart._model_inputs import Feed, Source
from popart._names import explain_keywords
from popart._step_plan import StepPlan
from popart._trainer_weights import Weights
from popart._training_model import (
    LossFunction,
    TrainingModel,
    check_names,
    recomputation,
    require_samples,
    training_model,
)
from popart._training_sessions import TrainingSessions
from popart.builder import Builder
from popart.fitting import Data, History, Run, Settings, require_batches
from popart.inference_form import inference_form
from popart.loading import Model, session_options
from popart.metrics import Metric, Metrics, listed
from popart.schedules import Factor, Schedule
from popart.session import TrainingSession, _require_kinds

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


def _require_optimizer(optimizer: Any) -> None:
    if optimizer is None:
        raise TypeError("Trainer: there is no optimizer. Give one, such as popart.optim.AdamW(lr=1e-3)")
    _require_kinds("Trainer", optimizer=optimizer)


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
        batch_axis: int | str | None = None,
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
            accumulation: Micro-batches for each update. `fit` takes as many batches of the loader for each update. With
                the losses of ``popart.losses``, the update is that of all its samples at once, also with a sum, class
                weights or ignored labels. Other losses are averaged over the micro-batches.
            replicas: Copies of the program, each for a part of every micro-batch.
            recompute: Whether activations are computed again in the backward pass: True, or a ``RecomputationType`` by
                name.
            max_memory: Limit of device memory in bytes, or text such as ``"2G"``: if the program needs more,
                activations are computed again or moved off chip.
            num_threads: Number of compute threads; None: one for each core that the process may use.
            seed: Seed of random numbers; None: a different one each time.
            outputs: Additional tensors to return from each step, in `results`.
            output: Output of the model that a named loss reads; None: the only one, or the first with floats.
            batch_axis: Dimension of the inputs that counts samples, along which updates are cut: its number, or the
                name of an open dimension. None: a dimension called ``batch`` or ``N``; the second one of inputs that a
                recurrent operator reads with time first; otherwise the first one.
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
            TypeError: An argument is unknown or of another kind, or there is no model or no optimizer.
            ValueError: A number is out of range.
            FileNotFoundError: The file does not exist.
        """
        _require_optimizer(optimizer)
        _require_kinds("Trainer", device=device)
        options_of_loss = mapping("Trainer: loss_options", loss_options, "arguments of the loss")
        self._ignored = options_of_loss.get("ignore_index")
        micro, copies = whole("Trainer: accumulation", accumulation, 1), whole("Trainer: replicas", replicas, 1)
        self._model_with_loss = functools.partial(
            training_model,
            model,
            loss,
            optional(text, "Trainer: output", output),
            options_of_loss,
            flag("Trainer: train_batch_norm", train_batch_norm),
            batch_axis,
        )
        self._model = self._model_with_loss(are_cut=micro * copies > 1)
        frozen_names, trainable_names = names("Trainer: frozen", frozen), names("Trainer: trainable", trainable)
        check_names("frozen", frozen_names, self._model.weights)
        check_names("trainable", trainable_names, self._model.weights)
        if micro * copies > 1:
            require_samples(self._model, micro, copies)
        self._choice: dict[str, Any] = {
            key: chosen
            for key, value, chosen in (("frozen", frozen, frozen_names), ("trainable", trainable, trainable_names))
            if value is not None
        }
        self._optimizer = optimizer
        self._sent: dict[int, tuple[float | None, ...]] = {}  # learning rates that sessions have
        self._division = Division(self._model.axes.by_input, micro, copies)
        self._recompute = recomputation(recompute)
        self._common: dict[str, Any] = {
            "options": options,
            "max_memory": max_memory,
            "num_threads": num_threads,
            "max_shapes": max_shapes,
            "precision": precision,
            "what": "Trainer",
        }
        session_options(**self._common)  # refused here, not at the first batch
        self._anchors, self._device = names("Trainer: outputs", outputs), device
        self._feed = Feed("Trainer", self._model.inputs, inputs)
        self._sessions = TrainingSessions(self._session_of, optional(whole, "Trainer: seed", seed, 0, 2**64 - 1))
        self._plan: StepPlan | None = None  # of the last step, where the next one may be like it
        self._has_factors = bool(self._model.parts.counts() or self._model.parts.factors)
        self._counts: Model | None = None  # of what the loss counts
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

    def _session_of(self, accumulation: int, replicas: int, model: TrainingModel | None = None) -> TrainingSession:
        model = model or self._model
        if model.stamps is not None and self._sessions.current is None:  # later ones get the values of the first
            model.stamps.require_unchanged("Trainer")
        options = session_options(**self._common)
        options.accumulationAndReplicationReductionType = ReductionType.Mean
        if accumulation > 1:
            options.enableGradientAccumulation, options.accumulationFactor = True, accumulation
        if replicas > 1:
            options.enableReplicatedGraphs, options.replicatedGraphCount = True, replicas
        options.autoRecomputation = self._recompute
        anchors = dict.fromkeys([model.loss, *self._anchors], AnchorReturnType("All"))
        session = TrainingSession(
            model.proto,
            DataFlow(1, anchors),
            model.loss,
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

    @functools.cached_property
    def _whole(self) -> TrainingModel:
        """The model whose loss has no factors: for batches that are not cut."""
        return self._model_with_loss(are_cut=False) if self._has_factors else self._model

    @property
    def loss(self) -> str:
        """Name of the loss tensor, as files of ``save(path, form="training")`` have it."""
        return self._whole.loss

    @property
    def optimizer(self) -> popart_core.Optimizer:
        """The optimizer. You may assign another one of the same class, and set ``optimizer.lr``, at any time."""
        return self._optimizer

    @optimizer.setter
    def optimizer(self, optimizer: popart_core.Optimizer) -> None:
        _require_optimizer(optimizer)
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

    def samples(self, arrays: Mapping[str, np.ndarray]) -> int:
        """Return the number of samples of a batch.

        Args:
            arrays: Arrays of the batch by input.

        Returns:
            The size of the dimension of samples (``batch_axis``) of the first array that has one, otherwise 1.
        """
        return self._division.samples(arrays)

    def _factors(self, arrays: Mapping[str, np.ndarray], parts: int) -> dict[str, np.ndarray]:
        """The factors of the losses of the parts of a batch, by input."""
        of, counts = self._model.parts, {}
        if wanted := of.counts():
            if self._counts is None:
                proto = inference_form(self._model.proto, outputs=wanted)
                self._counts = Model(proto, wanted, session_options(num_threads=1), self._device, "Trainer")
            counts = self._counts.run({name: arrays[name] for name in self._counts.inputs})
        return factors_of(of, counts, parts)

    def _with_factors(self, plan: StepPlan, cut: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays of a step that is like the one before, with the factors of their losses."""
        parts = self._division.usual
        whole = {name: array.reshape(plan.whole[name]) for name, array in cut.items()}
        return cut | self._division.cut(self._factors(whole, parts[0] * parts[1]), parts)

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
        division = self._division
        division.require_samples(arrays)
        parts = division.parts(division.samples(arrays))
        cut = division.cut(arrays, parts)
        skip = sum(n != 1 for n in parts)
        factors = self._factors(arrays, parts[0] * parts[1])
        shapes = {name: array.shape[skip:] for name, array in cut.items()} | dict.fromkeys(factors, ())
        try:
            session = self._sessions.use(shapes, *parts)
        except popart_exception as error:
            raise self._model.explained(error, shapes) from None
        plan = StepPlan(self._feed, session, self._sessions.shapes, arrays, cut, self._model.loss, self._anchors)
        self._send_optimizer(plan)
        # the numbers of parts depend on the steps before, and unbatched arrays are copied for each micro-batch
        is_usual = parts == division.usual
        is_reshaped = skip == 0 or (division.is_along_first and len(division.axes(arrays)) == len(arrays))
        self._plan = plan if is_usual and is_reshaped else None
        return plan, cut | division.cut(factors, parts)

    def step(self, batch: Any) -> float:
        """Update the weights once.

        Args:
            batch: All samples of the update, including all its micro-batches: a dictionary by input, or a tuple of
                values in the order of `inputs`. Arrays of NumPy, PyTorch, or any library with DLPack.

        Returns:
            The loss of the samples: their mean, or their sum if the loss is one. The tensors of ``outputs`` are in
            `results`. As in a session, they have leading dimensions for micro-batches and replicas where these numbers
            are not 1.

        Raises:
            popart_exception: An input is missing, or has a type or shape that the model does not take.
        """
        plan = self._plan
        if plan is not None and plan.shapes is self._sessions.shapes:
            cut = plan.cut(batch)
            if cut is not None:
                return self._run(plan, self._with_factors(plan, cut) if self._has_factors else cut)
        return self._run(*self._prepared(self._feed.arrays(batch)))

    def _step(self, arrays: Mapping[str, np.ndarray]) -> float:
        """Run `step` with arrays by input name."""
        plan = self._plan
        if plan is not None and plan.shapes is self._sessions.shapes:
            cut = plan.cut([arrays[name] for name in self._feed.order])
            if cut is not None:
                return self._run(plan, self._with_factors(plan, cut) if self._has_factors else cut)
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
        if self._has_factors and self._model.parts.are_undefined(cut):
            return math.nan
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
            ValueError: The schedule needs the number of batches, and the data has no length; a number is out of range.
            TypeError: An argument has another kind.
        """
        settings = Settings(
            epochs=whole("fit: epochs", epochs, 0),
            validate=validate,
            metrics=listed(metrics),
            patience=optional(whole, "fit: patience", patience, 0),
            monitor=optional(text, "fit: monitor", monitor),
            mode=mode,
            schedule=schedule,
            checkpoint=optional(file_path, "fit: checkpoint", checkpoint),
            save_every=whole("fit: save_every", save_every, 0),
            restore_best=flag("fit: restore_best", restore_best),
            log=listed(log),
            log_every=whole("fit: log_every", log_every, 0),
            on_step=function("fit: on_step", on_step),
            on_epoch=function("fit: on_epoch", on_epoch),
            progress=flag("fit: progress", progress),
        )
        return Run(self, data, settings).run()

    def _of_samples(self, loss: float, size: int) -> float:
        """The sum of the losses of samples, given the loss of their batch."""
        return loss if self._model.is_sum else loss * size

    # ---- inference

    def _inference(self, with_loss: bool, args: Sequence[Any], named: Mapping[str, Any]) -> Model:
        """A model with the current weights, for these values of its inputs."""
        if with_loss not in self._evaluation:
            chosen = [*self._model.outputs, self._model.loss] if with_loss else self._model.outputs
            # the network alone does not ask for labels
            proto = self._model.proto if with_loss else inference_form(self._model.source, outputs=chosen)
            options = self._inference_options(proto)
            self._evaluation[with_loss] = Model(proto, chosen, options, self._device, "Trainer"), -1
        model, version = self._evaluation[with_loss]
        if version != self._sessions.version and self._sessions.current is not None:
            model.set_weights(self._sessions.values(), *args, **named)
            self._evaluation[with_loss] = model, self._sessions.version
        return model

    def _inference_options(self, proto: Source) -> SessionOptions:
        options = session_options(**self._common)
        options.constantWeights = False
        if "trainable" in self._choice:  # maybe tensors that otherwise count as settings
            known = set(Builder(proto).getTrainableTensorIds())
            trained = [one.name for one in self.session.trainableTensors() if one.trains]
            options.trainableTensors = [name for name in trained if name in known]
        return options

    def _metrics(self, metrics: Sequence[str | Metric] | str | Metric) -> Metrics:
        return Metrics(listed(metrics), self._model.output, self._model.labels, self._ignored)

    def evaluate(self, data: Iterable[Any], metrics: Sequence[str | Metric] | str | Metric = ()) -> dict[str, float]:
        """Compute the loss and metrics of data with the current weights, without training.

        Args:
            data: Batches as those of `fit`.
            metrics: As `fit`.

        Returns:
            A dictionary with ``loss``, the mean over all samples (of a sum: the sum divided by their number), and the
            metrics.

        Raises:
            popart_exception: As `step`; an unknown metric; data without batches.
        """
        require_batches("evaluate: data", data)
        counted, total, samples = self._metrics(metrics), 0.0, 0
        for batch in data:
            arrays = self._feed.arrays(batch)
            given = arrays | self._factors(arrays, 1)
            results = self._inference(True, (), given).run(given)
            size = self.samples(arrays)
            loss = float(np.mean(results.pop(self._model.loss), dtype=np.float64))
            total += self._of_samples(math.nan if self._model.parts.are_undefined(given) else loss, size)
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
        one_of("save: form", form, ("inference", "training"))
        file = str(file_path("save: path", path))
        session = self.session
        if form == "training" and self._has_factors:
            session = self._session_of(1, 1, self._whole)
            self._sessions.copy_to(session, {name: self._sessions.shapes[name] for name in self._feed.inputs})
        session.modelToHost(file, form=form)

    def save_state(self, path: str | Path, facts: Mapping[str, Any] | None = None) -> None:
        """Write weights, optimizer state and the state of random numbers to a safetensors file.

        Args:
            path: The file.
            facts: Further facts to store, as JSON values.
        """
        self._ready().save(file_path("save_state: path", path), mapping("save_state: facts", facts, "JSON values"))

    def load_state(self, path: str | Path) -> dict[str, Any]:
        """Restore what `save_state` wrote; training then continues as if it had not stopped, bit by bit.

        Args:
            path: The file.

        Returns:
            The facts that were stored.

        Raises:
            popart_exception: The file is of another model or optimizer, or other weights trained.
        """
        return self._ready().load(file_path("load_state: path", path))
