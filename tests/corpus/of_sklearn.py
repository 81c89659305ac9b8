"""Files of scikit-learn's converter: pipelines, linear models, trees, neighbours, kernels, networks."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from skl2onnx import to_onnx
from sklearn import (
    cluster,
    decomposition,
    discriminant_analysis,
    ensemble,
    linear_model,
    mixture,
    naive_bayes,
    neighbors,
    neural_network,
    preprocessing,
    svm,
    tree,
)
from sklearn.pipeline import make_pipeline, make_union

from tests.corpus.files import Feeds, File, Made

FEATURES = 5


def samples(seed: int, count: int) -> np.ndarray:
    """Rows of features."""
    return np.random.default_rng(seed).normal(size=(count, FEATURES)).astype(np.float32)


def converted(make: Callable[[], Any], target: str, folder: Path) -> Made:
    """An estimator fitted to few samples, as the converter writes it; labels and probabilities are its outputs."""
    x = samples(0, 60)
    targets = {
        "classes": np.argmax(x[:, :3], axis=1).astype(np.int64),
        "numbers": (x[:, 0] * 2 - x[:, 1] + np.sin(x[:, 2])).astype(np.float32),
        "none": None,
    }
    fitted = make().fit(x, targets[target])
    given = {id(fitted): {"zipmap": False}} if target == "classes" else None
    model = to_onnx(fitted, x[:1], options=given, target_opset={"": 17, "ai.onnx.ml": 3})

    def draw() -> Feeds:
        return {"X": samples(7, 20)}

    return Made(model.SerializeToString(), draw)


SEED = {"random_state": 0}
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "logistic_regression": partial(linear_model.LogisticRegression),
    "scaled_logistic_regression": lambda: make_pipeline(
        preprocessing.StandardScaler(), linear_model.LogisticRegression()
    ),
    "decision_tree": partial(tree.DecisionTreeClassifier, max_depth=4, **SEED),
    "random_forest": partial(ensemble.RandomForestClassifier, 7, max_depth=4, **SEED),
    "boosted_trees": partial(ensemble.GradientBoostingClassifier, n_estimators=5, **SEED),
    "support_vectors": partial(svm.SVC, probability=True, **SEED),
    "perceptrons": partial(neural_network.MLPClassifier, hidden_layer_sizes=(8,), max_iter=30, **SEED),
    "naive_bayes": partial(naive_bayes.GaussianNB),
    "neighbours": partial(neighbors.KNeighborsClassifier, 3),
    "discriminant": partial(discriminant_analysis.LinearDiscriminantAnalysis),
}
REGRESSORS: dict[str, Callable[[], Any]] = {
    "ridge": partial(linear_model.Ridge),
    "polynomial_ridge": lambda: make_pipeline(preprocessing.PolynomialFeatures(2), linear_model.Ridge()),
    "extra_trees": partial(ensemble.ExtraTreesRegressor, 6, max_depth=4, **SEED),
    "support_vector_regression": partial(svm.SVR),
    "perceptron_regression": lambda: make_pipeline(
        preprocessing.MinMaxScaler(), neural_network.MLPRegressor(hidden_layer_sizes=(8,), max_iter=30, **SEED)
    ),
    "boosted_regression": partial(ensemble.AdaBoostRegressor, n_estimators=3, **SEED),
}
TRANSFORMS: dict[str, Callable[[], Any]] = {
    "principal_components": partial(decomposition.PCA, 3),
    "means": partial(cluster.KMeans, 3, n_init=1, **SEED),
    "scaled_union": lambda: make_union(preprocessing.RobustScaler(), preprocessing.MaxAbsScaler()),
    "normalizer": partial(preprocessing.Normalizer),
    "gaussian_mixture": partial(mixture.GaussianMixture, 2, **SEED),
}


def rows() -> Iterator[File]:
    """Every estimator."""
    for target, table in (("classes", CLASSIFIERS), ("numbers", REGRESSORS), ("none", TRANSFORMS)):
        for name, make in table.items():
            yield File(f"{name}-sklearn", "scikit-learn's converter", partial(converted, make, target))
