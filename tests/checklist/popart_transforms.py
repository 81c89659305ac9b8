"""popart-transforms.md as rows: what is tested where, and what is refused.

TESTED: section, statement, test. REFUSALS: section, situation, exception class, program, what the message names.
Statements that are short programs stand in `popart_transforms_programs.py`.
"""

import numpy as np
import popart
from popart import popart_exception

from tests.checklist.popart_python_refusals import Refusal, cpu, options
from tests.checklist.popart_transforms_programs import Network, conv_without, product, without

_TESTED = {
    "pipelining_refusals": """
        3.9 | only some ops placed | only_some_operations_are_placed
        3.9 | Manual and no op placed | no_operation_is_placed
        3.9 | Off ignores annotations | off_ignores_placement
        3.9 | Auto: not enough split points | not_enough_split_points
        3.9 | an id beyond the device | a_virtual_graph_beyond_the_device
        3.10 | only some ops have a stage | only_some_operations_have_a_stage
        3.10 | a stage on two virtual graphs | a_stage_on_two_virtual_graphs
        3.10 | fewer than two virtual graphs, before anchors are looked up | one_virtual_graph
        3.10 | mode Off | virtual_graph_mode_off
        3.10 | inferred stages that go back, implicit and explicit | virtual_graphs_that_go_back
        3.10 | recomputation in two fragments | recomputation_in_two_stages
        3.10 | subgraph ops elsewhere than the calling op | operations_of_subgraphs
        3.10 | user recompute annotations | marks
        3.10 | depth: batchesPerStep | depth_of_batches
        3.10 | depth: accumulation factor | depth_of_accumulation
        3.10 | depth: inference | depth_of_inference
        3.10 | a variable of stages on different graphs | a_weight_on_two_virtual_graphs
        3.10 | an anchored stash | an_anchor_that_is_stashed
        3.10 | explicit pipelining needs explicitRecomputation | explicit_pipelining_needs_explicit_recomputation
        3.10 | explicit pipelining and EveryN | explicit_pipelining_returns_no_every_n
        3.10 | createImplicitPipeliningFwdOnlyProgram | program_of_forward_passes
        3.23 | clipping in a pipeline needs another schedule | clipping_needs_another_schedule
    """,
    "pipelining": """
        3.10 | with accumulation the plain numbers | training_gives_the_bits_of_the_plain_program
        3.10 | a stream that several IPUs read is no error | every_stage_form_trains
        3.10 | Stashed___, Restored___ | what_is_needed_later_is_stashed
        3.10 | inference pipelines, stashAllTensorsInferencePipeline | inference
        3.10 | run("implicitPipeliningFwdOnly") | program_of_forward_passes
        3.9 | Auto by cost and ratios | virtual_graphs_by_cost
        3.9 | numbers unchanged | sharding
    """,
    "session_details": """
        1 | reserved prefixes | inputs_with_reserved_names_are_refused
        3.21 | the same seed | same_seed_gives_the_same_numbers
        3.21 | no random op | seed_without_random_operation_is_zero
        3.25 | compilationProgressLogger | progress_of_compilation_starts_at_zero_and_ends_at_the_total
    """,
    "as_documented": """
        2 | NoPatterns | no_patterns_are_no_patterns
        2 | levels and InPlace | levels_and_in_place
        3.1 | an op of constants with a gradient stays | an_operator_of_constants_with_a_gradient_stays
        3.2 | gradients of constants | gradients_of_constants
        3.2 | gradients of integers | gradients_of_integers
        3.2 | what ends a path | what_ends_a_path
    """,
    "options": """
        2 | every pattern has its state | every_pattern_has_a_note
        3.18 | options that change neither results nor memory | options_without_effect_change_neither_results_nor_memory
        3.22 | decomposeGradSum | decompose_grad_sum_adds_gradients_one_by_one
        3.12 | phases 0 and 1 warn | warned_values_warn_once_by_name
    """,
    "accumulation": """
        3.5 | micro-batches are one larger batch | agrees_with_torch
        3.5 | update ops once per update | accumulator_is_state_and_empty_between_updates
        3.21 | the seed advances every micro-batch | random_numbers_differ_between_micro_batches
    """,
    "replicas": """
        3.6 | replicas are one with all data | agrees_with_torch
        3.6 | the replica dimension | data_is_laid_out_by_batch_and_replica
        3.6 | IPUs divisible by the count | devices_need_an_ipu_per_replica
        3.6 | groups of VariableSettings | weights_with_one_value_per_group
        3.21 | replicas differ | replicas_draw_different_numbers
    """,
    "collective_merging": "3.6 | replicatedCollectivesSettings | bits_do_not_depend_on_what_is_merged",
    "recomputation": """
        3.11 | every form, no numeric change | same_bits_as_the_plain_program
        3.11 | manual | marked_operations_alone_are_computed_again
        3.11 | auto and manual | rules_do_not_go_with_marks
    """,
    "execution_phases": """
        3.12 | results | the_same_bits
        3.12 | Preload | preloading_loads_one_phase_ahead
        3.12 | stages 1 or 2 | stages_are_the_ipus_that_a_device_must_have
    """,
    "off_chip": """
        3.13 | results unchanged | the_same_bits
        3.13 | minElementsForOffChip | small_tensors_stay
        3.13 | tensorLocationSettingsOverride | a_tensor_by_name_comes_before_its_kind
        3.13 | an override that names no tensor | an_override_that_names_no_tensor_warns
    """,
    "sharded_state": """
        3.13 | results unchanged | the_same_bits
        3.13 | minElementsForReplicatedTensorSharding | small_tensors_stay_whole
        3.13 | the host sees whole tensors | the_host_sees_whole_tensors
        3.13 | shardingDomain | groups_smaller_than_all_replicas
        3.13 | padding | padding_makes_no_nan
        3.13 | what cannot be sharded | refusals
    """,
    "batch_serialisation": """
        3.14 | numbers | inference_gives_the_bits_of_the_plain_program
        3.14 | an axis that does not fall into parts | batches_that_do_not_fall_into_parts_are_refused
        3.14 | Loop, Fwd and training | loops_in_the_forward_context_cannot_be_trained
        3.14 | concatOn… | results_are_joined_where_asked_for
    """,
    "serialisation": """
        3.15 | modes | inference
        3.15 | the update is serialised too | the_optimizer_step_is_serialised_too
        3.15 | keep_precision | half_precision_sums
        3.15 | a factor that does not divide | a_factor_must_divide_the_dimension
        3.15 | ranks | other_refusals
    """,
    "merged_updates": "3.16 | fewer updates, same numbers | same_bits_with_fewer_updates",
    "outlining": """
        3.17 | Call ops | equal_layers_become_one_graph
        3.17 | outlineThreshold | threshold
        3.17 | outlineAttributes | outline_attributes_keep_operations_apart
        3.17 | seeds stay distinct | each_call_draws_random_numbers_of_its_own
    """,
    "host_ahead": """
        3.18 | overlapped inputs | exchange_strategies_of_inputs
        3.18 | overlapped anchors | exchange_strategies_of_anchors
        3.18 | overlap without loops, host copies or virtual graphs; OverlapStep | refusals
        3.18 | prefetch | order_of_calls
    """,
    "loss_scaling": """
        3.19 | doubled | the_scale_doubles_while_gradients_are_small
        3.19 | a period | with_a_period_every_other_update_counts
        3.19 | halved | large_gradients_halve_it
        3.19 | bin edge and threshold | bin_edge_and_threshold
        3.19 | tracked tensors | tracked_gradients_are_those_asked_for
        3.19 | a new optimizer keeps the factor | a_new_optimizer_keeps_the_factor
        3.19 | the counter is saved | factor_and_counter_are_saved_with_the_model
        3.19 | settings refused | settings_that_are_refused
        3.19 | constant loss scale, scaled state | optimizers_that_are_refused
        3.19 | pipelining without accumulation | options_that_are_refused
        3.19 | no FLOAT16 | models_without_float16_are_refused
        3.19 | ensureFp32LossScaleTensor | loss_scale_stays_float_up_to_the_first_gradient
    """,
    "stochastic_rounding": """
        3.21 | rounded stochastically | the_mean_of_many_draws_is_the_value
        3.21 | weights stay equal | replicas_keep_equal_weights
    """,
    "float8": "3.24 | log2 scale range | a_scale_out_of_range_ends_the_run",
}
TESTED = [
    (*(part.strip() for part in line.split("|")[:2]), f"test_{file}.py::test_{line.split('|')[2].strip()}")
    for file, lines in _TESTED.items()
    for line in lines.strip().splitlines()
]

# ---- refusals that stand in no other table
# Section 2: operators that only their pattern gives a kernel, by pattern.
EXPANDED = {
    "Atan2Arg0GradOp": "atan2",
    "Atan2Arg1GradOp": "atan2",
    "CosGradOp": "cos",
    "CoshOp": "cosh",
    "ExpGradOp": "exp",
    "Expm1GradOp": "expm1",
    "Log1pGradOp": "log1p",
    "ReciprocalGradOp": "reciprocal",
    "SqrtGradOp": "sqrt",
    "SubtractArg1GradOp": "sub",
}
GRAPHCORE = ("atan2", "expm1", "log1p")


def switched_off(pattern, operator):
    """Training of an operator on a weight without the pattern; patterns that are mandatory may be missing."""

    def body(b, x, w):
        binary = [w, x] if "Arg0" in pattern else [x, w]
        inputs = binary if operator in ("sub", "atan2") else [w]
        return getattr(b.aiGraphcore if operator in GRAPHCORE else b.aiOnnx, operator)(inputs)

    def program():
        patterns = without().enableRuntimeAsserts(False)
        patterns.enablePattern(pattern, False)
        Network(body).training(patterns=patterns).prepareDevice()

    return program


LOCATIONS = [
    *(f"{kind}TensorLocationSettings" for kind in ("activation", "weight", "optimizerState", "accumulator")),
    "tensorLocationSettingsOverride",
]


def on_io_tiles(name, tiles=0):
    def program():
        io, compute = popart.TileSet.IO, popart.TileSet.Compute
        location = popart.TensorLocation(popart.TensorStorage.OffChip, io, compute, popart.ReplicatedTensorSharding.Off)
        given = {"w": location} if name == "tensorLocationSettingsOverride" else popart.TensorLocationSettings(location)
        Network(product).training(**{name: given}, numIOTiles=tiles)
        return True

    return program


def duplicate_inputs():
    import onnx

    network = Network(product)
    model = onnx.load_from_string(network.builder.getModelProto())
    model.graph.input.append(next(i for i in model.graph.input if i.name == "x"))
    popart.InferenceSession(model.SerializeToString(), popart.DataFlow(1, [network.y]), cpu())


def integer_weight():
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(np.ones((2, 3), np.int32), "w")
    x = builder.addInputTensor("INT32", [2, 3], "x")
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.add([x, w])], reduction=popart.ReductionType.Sum)
    popart.TrainingSession(
        builder.getModelProto(), popart.DataFlow(1, [loss]), loss, popart.ConstSGD(0.1), cpu()
    ).prepareDevice()


def custom_transform(checkpoint, name):
    def program():
        given = options()
        given.experimentalSettings.customTransformApplierSettings = {checkpoint: [name]}
        network = Network(product)
        popart.InferenceSession(
            network.builder.getModelProto(), popart.DataFlow(1, [network.y]), cpu(), userOptions=given
        )

    return program


def every_n_of_main_loops():
    def every(loss):
        return popart.DataFlow(4, {loss: popart.AnchorReturnType("EveryN", 2)})

    Network(product).training(flow=every, useHostCopyOps=True, enableExplicitMainLoops=True)


REFUSALS = [
    *(
        Refusal("2", f"{pattern} off", popart_exception, switched_off(pattern, operator), (pattern,))
        for pattern, operator in EXPANDED.items()
    ),
    Refusal(
        "2",
        "ConvFlipWeightsGradOp off",
        popart_exception,
        conv_without("ConvFlipWeightsGradOp", "convtranspose"),
        ("ConvFlipWeightsGradOp",),
    ),
    *(
        Refusal(
            "3.13", f"IO tiles for {name}, and none", popart_exception, on_io_tiles(name), (name, "numIOTiles", "got 0")
        )
        for name in LOCATIONS
    ),
    Refusal("1", "duplicate ONNX inputs", popart_exception, duplicate_inputs, ("'x'",)),
    Refusal("3.2", "a fixed-point variable with a gradient", popart_exception, integer_weight, ("'w'",)),
    Refusal("3.26", "an unknown checkpoint", popart_exception, custom_transform("None", "Prune"), ("None", "PreAlias")),
    Refusal("3.26", "an unknown transform", popart_exception, custom_transform("Fwd0", "Mine"), ("'Mine'",)),
    Refusal("3.26", "one that is not allowed", popart_exception, custom_transform("Fwd0", "Pipeline"), ("'Pipeline'",)),
    Refusal("3.18", "EveryN with explicit main loops", popart_exception, every_n_of_main_loops, ("EveryN",)),
]
