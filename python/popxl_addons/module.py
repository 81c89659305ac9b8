"""Module: a reusable part of a model that owns variables.

`build` adds ops, and adds variables as graph inputs. `create_graph` makes a graph of it and returns the factories of
the variables. A sub-module that is assigned to an attribute shares its containers with its parent, under the name of
the attribute. `build_grad` defines the gradient by hand (handwritten_gradients.py).
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import popxl
from popxl.module import Module as PlainModule
from popxl.transforms import GradGraphInfo

from popxl_addons.dot_tree import Key, check_element
from popxl_addons.graph import BoundGraph, GraphWithNamedArgs
from popxl_addons.graph_cache import GraphCache
from popxl_addons.graph_common import GradInfos
from popxl_addons.handwritten_gradients import Aux, VarGrad, create_grad_graph_info, make_grad_graph
from popxl_addons.module_call import Choose, ModuleCall
from popxl_addons.name_scopes import NameScopeMeta
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import OrderedDict, duplicate_items, overrides
from popxl_addons.variable_factory import (
    DataIter,
    NamedVariableFactories,
    VariableFactory,
    add_replica_sharded_variable_input,
    add_variable_input,
    sharded_factory,
)

_INLINING = ("error", "warning", "none")


class _MadeByInit:
    """An attribute that is created when it is first used."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        kind = (owner or type(obj)).__name__
        raise AttributeError(
            f"{kind!r} object has no attribute {self._name!r}. Its __init__ has to call super().__init__() before it "
            "assigns modules.",
            name=self._name,
            obj=obj,
        )


class Module(popxl.Module, metaclass=NameScopeMeta):
    """Base class of layers and models.

    Args:
        cache: re-use graphs of equal arguments.
        grad_inlining_error: what to do when a module with a handwritten gradient is called inline: ``"error"``,
            ``"warning"`` or ``"none"``.

    Attributes:
        aux: values that `build` stores for `build_grad` (`Aux`).
        var_grad: gradients of variables that `build_grad` assigns (`VarGrad`).
        called_graphs_grad_info: gradient infos of graphs that `build` calls; autodiff of the module's graph uses them.

    Raises:
        ValueError: unknown grad_inlining_error, or caching together with `build_grad`.
    """

    _attached = _MadeByInit()  # name → module
    _variable_factories = _MadeByInit()  # name → factory, tree of factories, or attached module
    _variable_inputs = _MadeByInit()  # name → graph input, tree of them, or attached module
    _name_scope: str | None = None
    _graph_cache: GraphCache | None = None
    _building = 0
    _plain_setattr = popxl.Module.__setattr__  # of the base class, looked up once for each class
    _aux: Aux | None = None
    _grad_infos: GradInfos | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._plain_setattr = super().__setattr__

    def __init__(self, cache: Any = False, grad_inlining_error: str = "error") -> None:
        if grad_inlining_error not in _INLINING:
            raise ValueError(f"grad_inlining_error should be one of {_INLINING}: got {grad_inlining_error!r}.")
        if cache and self.implements_grad_graph:
            raise ValueError("You cannot use graph caching if you have implemented `build_grad`.")
        # A model has many modules, so attributes are created only when used, and values are not searched for modules.
        self._plain_setattr("_attached", {})
        self._plain_setattr("_variable_factories", {})
        self._plain_setattr("_variable_inputs", {})
        self._plain_setattr("grad_inlining_error", grad_inlining_error)
        if cache:
            self._graph_cache = GraphCache()

    @property
    def aux(self) -> Aux:
        """Values that `build` stores for `build_grad`."""
        if self._aux is None:
            self._aux = Aux()
        return self._aux

    @aux.setter
    def aux(self, value: Aux) -> None:
        self._aux = value

    @cached_property
    def var_grad(self) -> VarGrad:
        """Gradients of variables that `build_grad` assigns."""
        return VarGrad()

    @property
    def called_graphs_grad_info(self) -> GradInfos:
        """Gradient infos of graphs that `build` calls."""
        if self._grad_infos is None:
            self._grad_infos = GradInfos()
        return self._grad_infos

    @called_graphs_grad_info.setter
    def called_graphs_grad_info(self, value: GradInfos) -> None:
        self._grad_infos = value

    @cached_property
    def _cached(self) -> dict[popxl.Graph, tuple[NamedVariableFactories, NamedTensors]]:
        return {}

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Add the ops and the variables. Subclasses override this.

        Raises:
            NotImplementedError: the class has no `build`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `build`.")

    def build_grad(self, *grads: popxl.Tensor) -> Any:
        """Define the gradient by hand. Subclasses may override this; otherwise autodiff is used.

        Args:
            *grads: gradient of each output of `build`. An override must have exactly one positional parameter for each.

        Returns:
            Gradients of the inputs that are not variables, in order. Assign those of variables to
            ``self.var_grad[name]``; read values that `build` has stored from ``self.aux[key]``.

        Raises:
            NotImplementedError: the class has no `build_grad`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement `build_grad`.")

    @property
    def implements_grad_graph(self) -> bool:
        """Whether the class has a handwritten gradient."""
        return type(self).build_grad is not Module.build_grad

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Add the ops of `build` to the current graph."""
        by_hand = type(self).build_grad is not Module.build_grad
        if by_hand and not self._building and self.grad_inlining_error != "none":
            message = (
                f"{type(self).__name__} is called inline although `build_grad` has been implemented: the handwritten "
                "gradient would not be used. Call it through create_graph."
            )
            if self.grad_inlining_error == "error":
                raise Exception(message)
            warnings.warn(message, stacklevel=2)
        return self.build(*args, **kwargs)

    def set_name_scope(self, name: str) -> None:
        """Prefix tensor names of `build` with ``name/``."""
        self._plain_setattr("_name_scope", name)

    def __setattr__(self, key: str, value: Any) -> None:
        # Few values are modules, and isinstance is slower for a class that has a metaclass.
        if isinstance(value, PlainModule) and isinstance(value, Module):
            self._attach(key, value)
        self._plain_setattr(key, value)

    def _attach(self, key: str, module: "Module") -> None:
        free = key.isidentifier() and key not in self._variable_factories
        head = key if free else self._new_key(key, False)[0]
        self._variable_factories[head] = self._variable_inputs[head] = self._attached[head] = module
        module.set_name_scope(key)

    def _new_key(self, name: Key, overwrite: bool) -> tuple[str, str]:
        """Return the first element of a name, and the rest.

        Raises:
            ValueError: the element is not an identifier or a number, or exists and `overwrite` is not set.
        """
        head, rest = name, ""
        if isinstance(name, str) and "." in name:
            head, _, rest = name.partition(".")
        head = check_element(head)
        if head in self._variable_factories and not overwrite:
            raise ValueError(f"Key {head!r} already exists. Pass overwrite=True to replace it.")
        return head, rest

    def _trees(self) -> tuple[NamedVariableFactories, NamedTensors]:
        """Return new trees of the factories and of their graph inputs."""
        factories, inputs = self._variable_factories.copy(), self._variable_inputs.copy()
        for key, entry in self._variable_factories.items():
            if isinstance(entry, (NamedVariableFactories, popxl.Module)):
                factories[key], inputs[key] = self._trees_below(key)
        return NamedVariableFactories._of(factories), NamedTensors._of(inputs)

    def _trees_below(self, key: str) -> tuple[NamedVariableFactories, NamedTensors]:
        """Return new trees of the entries below a name; they are empty if the name has no entry, or one factory."""
        entry = self._variable_factories.get(key)
        if isinstance(entry, NamedVariableFactories):
            return entry.copy(), self._variable_inputs[key].copy()
        return entry._trees() if isinstance(entry, Module) else (NamedVariableFactories(), NamedTensors())

    # ---- building graphs
    def create_graph(self, *args: Any, **kwargs: Any) -> tuple[NamedVariableFactories, GraphWithNamedArgs]:
        """Build a graph from the module.

        Args:
            *args: arguments of `build`; tensors and tensor specs become inputs.
            **kwargs: as `args`.

        Returns:
            The factories of the variables, and the graph with the variables as named inputs.

        Raises:
            ValueError: the arguments do not fit the signature of `build`, or it does not return tensors.
        """
        try:
            if self._graph_cache is not None:
                return self._cached_graph(self._graph_cache, args, kwargs)
            self._building += 1
            try:
                graph = popxl.gir().create_graph(self, *args, **kwargs)
            finally:
                self._building -= 1
            graph._pb_graph.setCanBeRecursivelyAutodiffed(not self.implements_grad_graph)
            return self._built(graph)
        finally:
            self._reset()

    def _built(self, graph: popxl.Graph) -> tuple[NamedVariableFactories, GraphWithNamedArgs]:
        factories, inputs = self._trees()
        aux = None if self._aux is None else self._aux._take()
        made = GraphWithNamedArgs(graph, inputs, None, self, aux, self._all_grad_infos({}))
        return factories, made

    def _cached_graph(
        self, cache: GraphCache, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[NamedVariableFactories, GraphWithNamedArgs]:
        graph, is_new = cache._create(self, args, kwargs)
        if is_new:
            factories, made = self._built(graph)
            self._cached[graph] = (factories.copy(), made.args.copy())
            return factories, made
        # compat: gradient infos of called graphs are not restored (test_module.py::test_cached_graphs)
        factories, inputs = self._cached[graph]
        return factories.copy(), GraphWithNamedArgs(graph, inputs.copy(), from_module=self)

    def _all_grad_infos(self, found: dict[popxl.Graph, GradGraphInfo]) -> dict[popxl.Graph, GradGraphInfo]:
        """Add the gradient infos of attached modules, then those of this module, to `found`; return it."""
        for module in self._attached.values():
            module._all_grad_infos(found)
        if self._grad_infos is not None:
            found.update(self._grad_infos)
        return found

    def _reset(self) -> None:
        """Remove what a build has added, here and in attached modules; their containers stay attached."""
        if self._aux is not None:
            self._aux._take()
        if self._grad_infos is not None:
            self._grad_infos.clear()
        for entries in (self._variable_factories, self._variable_inputs):
            entries.clear()
            entries.update(self._attached)
        for module in self._attached.values():
            module._reset()

    def create_grad_graph(
        self,
        fwd_graph: GraphWithNamedArgs,
        grads_provided: Iterable[popxl.Tensor] | None = None,
        grads_required: Iterable[popxl.Tensor] | None = None,
    ) -> GraphWithNamedArgs:
        """Build the gradient graph of a graph of this module with `build_grad`.

        Tensors that `build` has stored in `aux` become extra outputs of the forward graph. So call this once, before
        any call of the forward graph. Normally `GraphWithNamedArgs.autodiff` calls it.

        Args:
            fwd_graph: what `create_graph` returned.
            grads_provided: outputs whose gradients are given, default all.
            grads_required: inputs whose gradients to compute, default all.

        Returns:
            The gradient graph with its `grad_graph_info`. Its inputs are the given gradients, then the values read from
            `aux`; its outputs are the gradients of inputs that are not variables, then those of variables.

        Raises:
            Exception: the class has no `build_grad`, or it returns too few or too many gradients.
            ValueError: a tensor is not an output or input, or is repeated, or the shape of a gradient differs.
            TypeError: `build_grad` has parameters that are not positional.
        """
        if not self.implements_grad_graph:
            raise Exception(f"{type(self).__name__}: there is no handwritten gradient. Override `build_grad`.")
        return make_grad_graph(self, fwd_graph, grads_provided, grads_required)

    def call_module(
        self,
        module: "Module",
        name: str | None = None,
        autodiff: str = "auto",
        grads_provided: Choose = None,
        grads_required: Choose = None,
    ) -> ModuleCall:
        """Prepare a call of another module, as a separate graph; for use in `build`.

        Args:
            module: the module to call.
            name: key of its variables in this module, default the name of its class. The name of the attribute that
                the module is assigned to is allowed, once.
            autodiff: gradient graph that autodiff of this module uses. ``"build_grad"``: the handwritten one;
                ``"autodiff"``: one that is made now; ``"auto"``: the handwritten one if it exists; ``"none"``: none.
            grads_provided: function of the callee's graph that chooses the outputs whose gradients are given.
            grads_required: function of the callee's graph that chooses the inputs whose gradients to compute.

        Returns:
            A function of the tensors that the callee's `build` takes, which returns its outputs.

        Raises:
            ValueError: unknown `autodiff`.
        """
        return ModuleCall(self, module, name, autodiff, grads_provided, grads_required)

    # ---- variables
    def add_variable_input(
        self,
        name: str,
        data_iter: DataIter,
        dtype: popxl.dtype | None = None,
        by_ref: bool = False,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        overwrite: bool = False,
    ) -> popxl.Tensor:
        """Add a variable: a graph input now, a variable of the main graph when the factories are initialised.

        Args:
            name: name, may be dotted.
            data_iter: callable or iterable that returns values (`VariableFactory`).
            dtype: element type, default that of the data.
            by_ref: changes in place reach the variable.
            replica_grouping: replicas that share a value.
            overwrite: replace a variable of this name.

        Returns:
            The graph input.

        Raises:
            ValueError: the name exists.
        """
        return self._register(name, VariableFactory(data_iter, dtype, name, by_ref, replica_grouping), overwrite)

    def add_replica_sharded_variable_input(
        self,
        name: str,
        data_iter: DataIter,
        dtype: popxl.dtype | None = None,
        by_ref: bool = False,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        shard_over: int | None = None,
    ) -> popxl.Tensor:
        """Add a variable sharded over replicas; see `add_variable_input`.

        Args:
            name: key of the input.
            data_iter: callable or iterable that returns values.
            dtype: element type; default: that of the values.
            by_ref: in-place changes reach the variable.
            replica_grouping: replicas that share one value.
            shard_over: number of replicas that each hold a part; default: the whole group.

        Returns:
            The graph input.
        """
        factory = sharded_factory(name, data_iter, dtype, by_ref, replica_grouping, shard_over)
        return self._register(name, factory, False)

    def add_variable_inputs(
        self, name: str | int, variable_f: NamedVariableFactories, overwrite: bool = False
    ) -> NamedTensors:
        """Add new graph inputs for a tree of factories under one name.

        Args:
            name: name of the subtree.
            variable_f: factories, for example those of an outlined graph.
            overwrite: replace a subtree of this name.

        Returns:
            The inputs under the names of the factories.

        Raises:
            ValueError: the name is a negative number, or exists.
        """
        if isinstance(name, int) and name < 0:
            raise ValueError(f"name: must be positive: got {name}.")

        def create_inputs() -> NamedTensors:
            return NamedTensors.from_dict({key: f.create_input() for key, f in variable_f.to_dict().items()})

        return self._add(name, variable_f.copy(), create_inputs, overwrite)

    def add_variable_factory(self, variable_f: VariableFactory, name: str | None = None) -> popxl.Tensor:
        """Add one factory as an input, under `name` or the name of the factory.

        Args:
            variable_f: the factory.
            name: key; default: the factory's own.

        Returns:
            The graph input.
        """
        return self._register(name or variable_f.name, variable_f, False)

    def _register(self, name: str, factory: VariableFactory, overwrite: bool) -> popxl.Tensor:
        if type(name) is str and name.isidentifier() and name not in self._variable_factories:
            self._variable_inputs[name] = tensor = factory.create_input()
            self._variable_factories[name] = factory
            return tensor
        return self._add(name, factory, factory.create_input, overwrite)

    def _add(self, name: Key, factory: Any, create_input: Callable[[], Any], overwrite: bool) -> Any:
        """Add a factory, or a tree of them, and what `create_input` returns; a refused name adds no input."""
        head, rest = self._new_key(name, overwrite)
        if not rest:
            self._variable_inputs[head] = tensor = create_input()
            self._variable_factories[head] = factory
            return tensor
        factories, inputs = self._trees_below(head)
        factories.insert(rest, factory, overwrite)
        tensor = create_input()
        inputs.insert(rest, tensor, overwrite)
        self._variable_factories[head], self._variable_inputs[head] = factories, inputs
        return tensor

    # ---- lists
    @classmethod
    def from_list(cls, sub_modules: Iterable["Module"]) -> "Module":
        """Return an iterable container of modules with the names "0", "1", ….

        Args:
            sub_modules: the modules.

        Returns:
            The container.
        """
        container = cls()
        sub_modules = list(sub_modules)
        for i, module in enumerate(sub_modules):
            setattr(container, str(i), module)
        container._listed = sub_modules
        return container

    @classmethod
    def from_variable_factories(cls, inputs: Iterable[VariableFactory]) -> "Module":
        """Return a container with one graph input per factory, under the names "0", "1", ….

        Args:
            inputs: the factories.

        Returns:
            The container.
        """
        container = cls()
        for i, factory in enumerate(inputs):
            object.__setattr__(container, str(i), container.add_variable_factory(factory, str(i)))
        return container

    def get(self, key: str | int) -> Any:
        """Return the attribute with the name or number `key`."""
        return getattr(self, str(key))

    def __getitem__(self, key: str | int) -> Any:
        return self.get(key)

    def __iter__(self) -> Iterator["Module"]:
        listed: list[Module] = self._listed
        return iter(listed)


__all__ = [
    "BoundGraph",
    "GraphCache",
    "GraphWithNamedArgs",
    "Module",
    "NameScopeMeta",
    "NamedTensors",
    "NamedVariableFactories",
    "OrderedDict",
    "VariableFactory",
    "add_replica_sharded_variable_input",
    "add_variable_input",
    "create_grad_graph_info",
    "duplicate_items",
    "overrides",
]
