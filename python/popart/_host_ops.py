"""Operators that run on the host, because programs have no text, image files or maps (docs/decisions/0059).

Each function of `OPERATORS` takes the node's attributes, its input values and its context, and returns the outputs.
Text is an array of Python strings (dtype object). Sources: the operator pages of ai.onnx and ai.onnx.ml.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx.helper
import onnx.numpy_helper
import popart_core

import onnx
from popart._arrays import as_array

Values = Sequence[Any]
MOST_PIXELS = 1 << 27  # of one decoded image: 384 MiB in three channels
MOST_ELEMENTS = 1 << 27  # of one result: 1 GiB of references to strings
MOST_CHARACTERS = 1 << 28  # of the strings that one StringConcat makes
# What ONNX's ImageDecoder reads: Pillow has formats that start programs or leave the file.
IMAGE_FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")


@dataclass(frozen=True)
class HostNode:
    """A node and its attributes as Python values."""

    type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]

    @staticmethod
    def of(node: onnx.NodeProto) -> HostNode:
        """Convert the node of a model.

        Returns:
            The node, with its attributes.

        Raises:
            popart_exception: An attribute cannot be read.
        """
        made = HostNode(node.op_type, node.domain, tuple(node.input), tuple(node.output), {})
        for a in node.attribute:
            try:
                made.attributes[a.name] = _attribute(a)
            except (ValueError, TypeError) as bad:
                raise made.fail(f"attribute '{a.name}' cannot be read: {bad}") from None
        return made

    def fail(self, what: str) -> popart_core.popart_exception:
        """Return an error that names the node."""
        name = self.outputs[0] if self.outputs else ""
        return popart_core.popart_exception(f"{self.type} (output '{name}'): {what}")

    def get(self, name: str, fallback: Any = None) -> Any:
        """The attribute, or its default when it is left out."""
        return self.attributes.get(name, fallback)

    def require(self, name: str) -> Any:
        """Return an attribute that the node must have.

        Returns:
            The attribute.

        Raises:
            popart_exception: The node does not have it.
        """
        if name not in self.attributes:
            raise self.fail(f"attribute '{name}' is missing")
        return self.attributes[name]

    def check_size(self, *shape: int) -> None:
        """Check the shape of a result before memory is allocated.

        Raises:
            popart_exception: It has more elements than the limit.
        """
        if math.prod(shape) > MOST_ELEMENTS:
            raise self.fail(
                f"the result is too large for the host: got shape {shape}, at most {MOST_ELEMENTS} elements"
            )


def _attribute(attribute: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, onnx.TensorProto):
        return tensor_value(value)
    if isinstance(value, list | tuple) and value and isinstance(value[0], bytes):
        return [text.decode("utf-8", "surrogateescape") for text in value]
    return value


def tensor_value(tensor: onnx.TensorProto) -> np.ndarray:
    """The values of a tensor.

    Returns:
        An array; text as Python strings.

    Raises:
        popart_exception: The values do not fill the shape of the tensor, or are in another file.
    """
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise popart_core.popart_exception(
            f"Tensor '{tensor.name}': the host only reads values that are in the model. Load the model with its data"
        )
    if tensor.data_type != onnx.TensorProto.STRING:
        try:
            return onnx.numpy_helper.to_array(tensor)
        except (ValueError, TypeError, KeyError) as bad:
            raise popart_core.popart_exception(f"Tensor '{tensor.name}': its values cannot be read: {bad}") from None
    count = int(np.prod(tensor.dims, dtype=object)) if tensor.dims else 1
    if any(dim < 0 for dim in tensor.dims) or count != len(tensor.string_data):
        raise popart_core.popart_exception(
            f"Tensor '{tensor.name}': number of strings does not match its dimensions: got {len(tensor.string_data)}, "
            f"expected {list(tensor.dims)}"
        )
    return text_array([s.decode("utf-8", "surrogateescape") for s in tensor.string_data], tensor.dims)


def text_array(strings: Sequence[str], shape: Sequence[int]) -> np.ndarray:
    """An array of Python strings."""
    flat = np.empty(len(strings), dtype=object)
    flat[:] = strings
    return flat.reshape(tuple(shape))


def is_text(value: Any) -> bool:
    """Whether a value is an array of strings."""
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "OUST"


def as_text(value: Any, name: str) -> np.ndarray:
    """Convert values that mean text: str, bytes (UTF-8), NumPy's string types.

    Returns:
        An array of Python strings.

    Raises:
        popart_exception: An element is not text.
    """
    array = np.asarray(value, dtype=object)
    strings = [s.decode("utf-8", "surrogateescape") if isinstance(s, bytes) else s for s in array.ravel().tolist()]
    for s in strings:
        if not isinstance(s, str):
            raise popart_core.popart_exception(
                f"input '{name}': text is expected: got {type(s).__name__}. Give an array of str"
            )
    return text_array(strings, array.shape)


def _constant(n: HostNode, x: Values) -> Values:
    if "value_string" in n.attributes:
        return [text_array([n.get("value_string")], ())]
    if "value_strings" in n.attributes:
        return [text_array(n.get("value_strings"), (len(n.get("value_strings")),))]
    return [n.get("value")]


def _shape(n: HostNode, x: Values) -> Values:
    return [np.array(x[0].shape[slice(n.get("start", 0), n.get("end"))], dtype=np.int64)]


def _equal(n: HostNode, x: Values) -> Values:
    a, b = _broadcast(n, x[0], x[1])
    return [np.array([p == q for p, q in zip(a.flat, b.flat, strict=True)], dtype=bool).reshape(a.shape)]


def _broadcast(n: HostNode, *arrays: np.ndarray) -> list[np.ndarray]:
    try:
        n.check_size(*np.broadcast_shapes(*(np.shape(a) for a in arrays)))
    except ValueError:
        raise n.fail(f"the shapes do not broadcast: got {[np.shape(a) for a in arrays]}") from None
    return list(np.broadcast_arrays(*arrays))


def _where(n: HostNode, x: Values) -> Values:
    return [np.where(*_broadcast(n, *x))]


def _concat_text(n: HostNode, x: Values) -> Values:
    a, b = _broadcast(n, x[0], x[1])
    characters = sum(map(len, a.flat)) + sum(map(len, b.flat))
    if characters > MOST_CHARACTERS:
        raise n.fail(f"the result is too large for the host: got {characters} characters, at most {MOST_CHARACTERS}")
    return [text_array([p + q for p, q in zip(a.flat, b.flat, strict=True)], a.shape)]


def _split_text(n: HostNode, x: Values) -> Values:
    # An empty delimiter means runs of whitespace, as in str.split.
    parts = [s.split(n.get("delimiter") or None, n.get("maxsplit", -1)) for s in x[0].flat]
    most = max((len(p) for p in parts), default=0)
    n.check_size(len(parts), most)
    flat = [s for p in parts for s in p + [""] * (most - len(p))]
    return [
        text_array(flat, (*x[0].shape, most)),
        np.array([len(p) for p in parts], dtype=np.int64).reshape(x[0].shape),
    ]


def _normalise_text(n: HostNode, x: Values) -> Values:
    array = x[0]
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[0] != 1):
        raise n.fail(f"the input must be (C) or (1, C): got {array.shape}")
    action = n.get("case_change_action", "NONE")
    change = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}.get(action)
    if change is None:
        raise n.fail(f"case_change_action: got '{action}', expected NONE, LOWER or UPPER")
    exact = bool(n.get("is_case_sensitive", 0))
    key = str if exact else str.lower
    stopwords = {key(word) for word in n.get("stopwords", [])}
    kept = [change(s) for s in array.flat if key(s) not in stopwords]
    kept = kept or [""]  # nothing left: one empty string
    return [text_array(kept, (len(kept),) if array.ndim == 1 else (1, len(kept)))]


def _match_text(n: HostNode, x: Values) -> Values:
    texts = [s.encode("utf-8", "surrogateescape") for s in x[0].flat]
    matches = popart_core._full_matches(n.get("pattern", ""), texts)
    return [np.array(matches, dtype=bool).reshape(x[0].shape)]


# ---- labels

_KINDS = {"strings": np.dtype(object), "int64s": np.dtype(np.int64), "floats": np.dtype(np.float32)}
_DEFAULTS = {
    "strings": ("default_string", "_Unused"),
    "int64s": ("default_int64", -1),
    "floats": ("default_float", -0.0),
}


def _labels(n: HostNode, part: str) -> tuple[np.ndarray, str]:
    """The list `part` ("keys" or "values") of a LabelEncoder and which kind of attribute holds it."""
    for kind, dtype in _KINDS.items():
        given = n.get(f"{part}_{kind}")
        if given is not None:
            return np.array(given, dtype=dtype), kind
    given = n.get(f"{part}_tensor")
    if given is None:
        raise n.fail(f"needs one of the attributes {part}_strings, {part}_int64s, {part}_floats and {part}_tensor")
    return given.ravel(), "tensor"


def _default(n: HostNode, kind: str, dtype: np.dtype) -> Any:
    tensor = n.get("default_tensor")
    if tensor is not None:
        if tensor.size != 1:
            raise n.fail(f"default_tensor must hold one value: got {tensor.shape}")
        return tensor.ravel()[0]
    if kind == "tensor":
        kind = "strings" if dtype.kind == "O" else "floats" if dtype.kind == "f" else "int64s"
    return n.get(*_DEFAULTS[kind])


def _key(value: Any) -> Any:
    """A key that is equal for equal labels; NaN equals NaN."""
    return "NaN" if isinstance(value, float) and value != value else value


def _encode_labels(n: HostNode, x: Values) -> Values:
    classes = n.get("classes_strings")
    if classes is not None:  # version 1
        numbers = np.arange(len(classes), dtype=np.int64)
        pair = (classes, numbers) if is_text(x[0]) else (numbers, np.array(classes, dtype=object))
        keys, values, kind = pair[0], pair[1], "int64s" if is_text(x[0]) else "strings"
    else:
        keys, values, kind = _labels(n, "keys")[0], *_labels(n, "values")
    if len(keys) != len(values):
        raise n.fail(f"keys and values must be as many: got {len(keys)} and {len(values)}")
    table = dict(zip(map(_key, np.array(keys).tolist()), np.array(values).tolist(), strict=True))
    default = _default(n, kind, np.array(values).dtype)
    result = np.empty(x[0].size, dtype=np.array(values).dtype)
    result[:] = [table.get(_key(label), default) for label in x[0].ravel().tolist()]
    return [result.reshape(x[0].shape)]


def _map_categories(n: HostNode, x: Values) -> Values:
    numbers, strings = n.get("cats_int64s", []), n.get("cats_strings", [])
    if len(numbers) != len(strings):
        raise n.fail(f"cats_int64s and cats_strings must be as many: got {len(numbers)} and {len(strings)}")
    if is_text(x[0]):
        table, default, dtype = dict(zip(strings, numbers, strict=True)), n.get("default_int64", -1), np.dtype(np.int64)
    else:
        table, default = dict(zip(numbers, strings, strict=True)), n.get("default_string", "_Unused")
        dtype = np.dtype(object)
    result = np.empty(x[0].size, dtype=dtype)
    result[:] = [table.get(label, default) for label in x[0].ravel().tolist()]
    return [result.reshape(x[0].shape)]


def _one_hot(n: HostNode, x: Values) -> Values:
    place = {label: i for i, label in enumerate(n.get("cats_strings", []))}
    found = [place.get(label, -1) for label in x[0].flat]
    if not n.get("zeros", 1) and -1 in found:
        raise n.fail(f"'{x[0].flat[found.index(-1)]}' is none of cats_strings, and zeros is 0")
    n.check_size(len(found), len(place))
    rows = np.zeros((len(found), len(place)), dtype=np.float32)
    for row, at in enumerate(found):
        if at >= 0:
            rows[row, at] = 1
    return [rows.reshape(*x[0].shape, len(place))]


# ---- text and numbers


def _cast(n: HostNode, x: Values) -> Values:
    to = n.require("to")
    if is_text(x[0]):
        if to == onnx.TensorProto.STRING:
            return [x[0]]
        try:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(to)
        except KeyError:
            raise n.fail(f"attribute 'to': got {to}, expected an element type of ONNX") from None
        try:
            return [np.array([_number(s, dtype) for s in x[0].flat], dtype=dtype).reshape(x[0].shape)]
        except (ValueError, OverflowError) as bad:
            raise n.fail(f"not all strings are numbers of type {dtype}: {bad}") from None
    if x[0].dtype.kind not in "fiub":
        raise n.fail(f"there is no text form of {x[0].dtype}")
    return [text_array([_written(v) for v in x[0].flat], x[0].shape)]


def _number(text: str, dtype: np.dtype) -> Any:
    if dtype.kind in "iu":
        return int(text)
    if dtype.kind == "b":
        return bool(int(text))
    return float(text)


def _written(value: Any) -> str:
    """The shortest text that reads back as the value; "NaN", "INF" and "-INF" as ONNX writes them."""
    if isinstance(value, np.floating) and not np.isfinite(value):
        return "NaN" if np.isnan(value) else "INF" if value > 0 else "-INF"
    return str(int(value)) if isinstance(value, np.bool_) else str(value)


# ---- data movement, which is the same for text as for numbers


def _ints(value: Any) -> list[int]:
    return [int(v) for v in np.asarray(value).ravel()]


def _axes(n: HostNode, x: Values) -> list[int] | None:
    if len(x) > 1 and x[1] is not None:
        return _ints(x[1])
    return n.get("axes")


def _reshape(n: HostNode, x: Values) -> Values:
    shape = _ints(x[1])
    if not n.get("allowzero", 0):
        if any(d == 0 and i >= x[0].ndim for i, d in enumerate(shape)):
            raise n.fail(f"shape {shape} takes a dimension that {x[0].shape} does not have")
        shape = [x[0].shape[i] if d == 0 else d for i, d in enumerate(shape)]
    return [x[0].reshape(shape)]


def _squeeze(n: HostNode, x: Values) -> Values:
    axes = _axes(n, x)
    return [np.squeeze(x[0], axis=None if axes is None else tuple(axes))]


def _unsqueeze(n: HostNode, x: Values) -> Values:
    return [np.expand_dims(x[0], tuple(_axes(n, x) or ()))]


def _flatten(n: HostNode, x: Values) -> Values:
    axis, shape = n.get("axis", 1), x[0].shape
    if not -len(shape) <= axis <= len(shape):
        raise n.fail(f"attribute 'axis': got {axis} for {len(shape)} dimensions")
    axis = axis + len(shape) if axis < 0 else axis
    return [x[0].reshape(math.prod(shape[:axis]), math.prod(shape[axis:]))]


def _expand(n: HostNode, x: Values) -> Values:
    shape = np.broadcast_shapes(x[0].shape, tuple(_ints(x[1])))
    n.check_size(*shape)
    return [np.broadcast_to(x[0], shape).copy()]


def _concat(n: HostNode, x: Values) -> Values:
    n.check_size(sum(a.size for a in x))
    return [np.concatenate(x, axis=n.require("axis"))]


def _gather(n: HostNode, x: Values) -> Values:
    axis = n.get("axis", 0)
    n.check_size(np.size(x[1]), x[0].size // max(x[0].shape[axis], 1))
    return [np.take(x[0], x[1], axis=axis)]


def _tile(n: HostNode, x: Values) -> Values:
    repeats = _ints(x[1])
    if len(repeats) != x[0].ndim or min(repeats, default=0) < 0:
        raise n.fail(f"repeats: got {repeats}, expected a number of 0 or more for each of {x[0].ndim} dimensions")
    n.check_size(x[0].size, *repeats)
    return [np.tile(x[0], repeats)]


# ---- images and maps


def _decode_image(n: HostNode, x: Values) -> Values:
    try:
        from PIL import Image
    except ImportError:
        raise n.fail("decoding images needs the package pillow. Install openpopart[images]") from None
    pixel_format = n.get("pixel_format", "RGB")
    if pixel_format not in ("RGB", "BGR", "Grayscale"):
        raise n.fail(f"pixel_format: got '{pixel_format}', expected RGB, BGR or Grayscale")
    data = np.asarray(x[0])
    if data.dtype != np.uint8 or data.ndim != 1:
        raise n.fail(f"the input must be the bytes of a file, uint8 of one dimension: got {data.dtype}{data.shape}")
    try:
        with Image.open(io.BytesIO(data.tobytes()), formats=IMAGE_FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                raise n.fail(f"the image is too large: got {image.width}x{image.height}, at most {MOST_PIXELS} pixels")
            pixels = np.array(image.convert("L" if pixel_format == "Grayscale" else "RGB"))
    except popart_core.popart_exception:
        raise
    except Exception as bad:  # the decoder raises exceptions of any class for damaged files
        raise n.fail(f"the bytes are not an image that can be decoded: {bad}") from None
    if pixel_format == "Grayscale":
        return [pixels[:, :, None]]
    return [np.ascontiguousarray(pixels[:, :, ::-1]) if pixel_format == "BGR" else pixels]


def _zip_map(n: HostNode, x: Values) -> Values:
    labels = n.get("classlabels_strings") or n.get("classlabels_int64s") or []
    rows = np.atleast_2d(x[0])
    if rows.ndim != 2 or rows.shape[1] != len(labels):
        raise n.fail(f"needs rows of one number for each label: got shape {rows.shape} and {len(labels)} labels")
    return [[dict(zip(labels, row.tolist(), strict=True)) for row in rows]]


def _map_values(n: HostNode, x: Values) -> Values:
    """DictVectorizer: the values of a map in the order of the vocabulary, 0 for keys it lacks."""
    if not isinstance(x[0], Mapping):
        raise n.fail(f"the input must be a map: got {type(x[0]).__name__}")
    keys = n.get("string_vocabulary") or n.get("int64_vocabulary") or []
    if any(isinstance(v, str) for v in x[0].values()):
        return [text_array([x[0].get(key, "") for key in keys], (1, len(keys)))]
    kind = np.float32 if any(isinstance(v, float | np.floating) for v in x[0].values()) else np.int64
    return [np.array([[x[0].get(key, 0) for key in keys]], dtype=kind)]


_CASTS = {"TO_FLOAT": np.dtype(np.float32), "TO_INT64": np.dtype(np.int64), "TO_STRING": np.dtype(object)}


def _cast_map(n: HostNode, x: Values) -> Values:
    """CastMap: the values of a map by ascending key; SPARSE: at their keys, zeros between them."""
    if not isinstance(x[0], Mapping) or not all(isinstance(key, int | np.integer) for key in x[0]):
        raise n.fail(f"the input must be a map with integers as keys: got {type(x[0]).__name__}")
    dtype, form = _CASTS.get(n.get("cast_to", "TO_FLOAT")), n.get("map_form", "DENSE")
    if dtype is None or form not in ("DENSE", "SPARSE"):
        raise n.fail(
            f"cast_to and map_form: got '{n.get('cast_to', 'TO_FLOAT')}' and '{form}', expected TO_FLOAT, TO_INT64 or "
            "TO_STRING and DENSE or SPARSE"
        )
    row = {int(key): value for key, value in sorted(x[0].items())}
    if form == "SPARSE":
        length = n.get("max_map", 1)
        if length < 1 or min(row, default=0) < 0:
            raise n.fail(f"max_map and keys: got {length} and {min(row, default=0)}, expected 1 or more and 0 or more")
        n.check_size(length)
        text = any(isinstance(value, str) for value in row.values())
        row = {key: row.get(key, "0" if text else 0.0) for key in range(length)}
    try:
        cast = [_written(np.float32(v)) if dtype.kind == "O" and not isinstance(v, str) else v for v in row.values()]
        result = np.empty((1, len(cast)), dtype=dtype)
        result[0, :] = [v if dtype.kind == "O" else _number(v, dtype) for v in cast]
    except (ValueError, OverflowError) as bad:
        raise n.fail(f"not all values are numbers of type {dtype}: {bad}") from None
    return [result]


Function = Callable[[HostNode, Values], Values]

# Operators that always run on the host.
ALWAYS: dict[tuple[str, str], Function] = {
    ("", "ImageDecoder"): _decode_image,
    ("ai.onnx.ml", "ZipMap"): _zip_map,
    ("ai.onnx.ml", "DictVectorizer"): _map_values,
    ("ai.onnx.ml", "CastMap"): _cast_map,
    ("ai.onnx.ml", "CategoryMapper"): _map_categories,
}

# Operators that run on the host when an input is text.
ON_TEXT: dict[tuple[str, str], Function] = {
    ("", "Identity"): lambda n, x: [x[0]],
    ("", "Shape"): _shape,
    ("", "Size"): lambda n, x: [np.array(x[0].size, dtype=np.int64)],
    ("", "Equal"): _equal,
    ("", "StringConcat"): _concat_text,
    ("", "StringSplit"): _split_text,
    ("", "StringNormalizer"): _normalise_text,
    ("", "RegexFullMatch"): _match_text,
    ("", "Cast"): _cast,
    ("", "Reshape"): _reshape,
    ("", "Squeeze"): _squeeze,
    ("", "Unsqueeze"): _unsqueeze,
    ("", "Flatten"): _flatten,
    ("", "Expand"): _expand,
    ("", "Concat"): _concat,
    ("", "Gather"): _gather,
    ("", "Transpose"): lambda n, x: [np.transpose(x[0], n.get("perm"))],
    ("", "Tile"): _tile,
    ("", "Where"): _where,
    ("ai.onnx.ml", "LabelEncoder"): _encode_labels,
    ("ai.onnx.ml", "OneHotEncoder"): _one_hot,
}


def _gives_text(node: onnx.NodeProto) -> Function | None:
    """The function of a node that makes text from inputs that are not text."""
    kind = ("" if node.domain == "ai.onnx" else node.domain, node.op_type)
    names = {a.name: a for a in node.attribute}
    if kind == ("", "Constant"):
        value = names.get("value")
        text = value is not None and value.t.data_type == onnx.TensorProto.STRING
        return _constant if text or "value_string" in names or "value_strings" in names else None
    if kind == ("", "Cast"):
        return _cast if "to" in names and names["to"].i == onnx.TensorProto.STRING else None
    if kind == ("ai.onnx.ml", "LabelEncoder"):
        tensor = names.get("values_tensor")
        text = tensor is not None and tensor.t.data_type == onnx.TensorProto.STRING
        return _encode_labels if text or {"values_strings", "classes_strings"} & names.keys() else None
    return None


def host_function(node: onnx.NodeProto, reads_text: bool) -> Function | None:
    """Find the function that runs `node` on the host.

    Returns:
        The function; None if the program runs the node.

    Raises:
        popart_exception: The node reads text and there is no such function.
    """
    kind = ("" if node.domain == "ai.onnx" else node.domain, node.op_type)
    if kind in ALWAYS:
        return ALWAYS[kind]
    if reads_text:
        if kind not in ON_TEXT:
            raise HostNode.of(node).fail("there is no form of this operator for strings")
        return ON_TEXT[kind]
    return _gives_text(node)


def run_node(function: Function, node: HostNode, values: Mapping[str, Any]) -> dict[str, Any]:
    """Run a node.

    Returns:
        Its outputs by name.

    Raises:
        popart_exception: The operator does not take these values.
    """
    given = [values[name] if name else None for name in node.inputs]
    try:
        results = function(node, given)
    except popart_core.popart_exception:
        raise
    except (ValueError, IndexError, TypeError, AttributeError, MemoryError) as bad:  # raised by NumPy
        raise node.fail(str(bad)) from None
    named = zip(node.outputs, results, strict=False)
    return {name: value if isinstance(value, list) else as_array(value) for name, value in named if name}
