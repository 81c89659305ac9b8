"""Networks of transformers from small configurations: encoders, decoders, encoder-decoders, vision, speech."""

import torch
import transformers
from torch import nn

from tests.models.circulation.network import Network, image, tokens

# Names of the same size differ between configurations.
BERT = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
LLAMA = BERT | {"num_key_value_heads": 2, "use_cache": False}
VIT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": 99,
    "use_cache": False,
    "dropout": 0.0,
}
T5 = {
    "vocab_size": 99,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "dropout_rate": 0.0,
}
SPEECH = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "conv_dim": (16, 16),
    "conv_stride": (5, 2),
    "conv_kernel": (10, 3),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "vocab_size": 32,
    "apply_spec_augment": False,
}


def model(config, name, settings):
    """A model of transformers by the names of its configuration and class."""

    def make():
        return getattr(transformers, name)(getattr(transformers, config)(**settings))

    return make


class Masked(nn.Module):
    """An encoder or decoder with a mask of padded tokens as second input."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, ids, mask):
        return self.network(input_ids=ids, attention_mask=mask)[0]


class Pair(nn.Module):
    """An encoder-decoder with the inputs of both."""

    def __init__(self, network, first="input_ids"):
        super().__init__()
        self.network = network
        self.first = first

    def forward(self, source, target):
        inputs = {self.first: source, "decoder_input_ids": target, "decoder_attention_mask": torch.ones_like(target)}
        return self.network(**inputs, use_cache=False, return_dict=True).logits


class First(nn.Module):
    """The first output alone: logits or hidden states."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x, return_dict=False)[0]


class Cached(nn.Module):
    """A decoder that takes one token and the keys and values of those before it."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, ids, *past):
        cache = transformers.DynamicCache()
        for layer, (key, value) in enumerate(zip(past[::2], past[1::2])):
            cache.update(key, value, layer)
        found = self.network(input_ids=ids, past_key_values=cache, use_cache=True)
        states = [state for layer in found.past_key_values.layers for state in (layer.keys, layer.values)]
        return (found.logits, *states)


class Clip(nn.Module):
    """Similarities of texts and images."""

    def __init__(self):
        super().__init__()
        text = {**BERT, "eos_token_id": 98}
        config = transformers.CLIPConfig(text_config=text, vision_config=VIT, projection_dim=16)
        self.network = transformers.CLIPModel(config)

    def forward(self, ids, pixels):
        return self.network(input_ids=ids, pixel_values=pixels).logits_per_image


def encoder(name, model_name=None, trains=None, **settings):
    """An encoder of tokens under a mask."""
    make = model(f"{name}Config", model_name or f"{name}Model", BERT | settings)
    return Network("encoder", lambda: Masked(make()), padded_tokens, trains=trains)


def padded_tokens():
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[1, 7:] = 0
    return torch.randint(2, 99, (2, 12)), mask


def decoder(name, model_name=None, trains=None, **settings):
    """A decoder that continues tokens."""
    make = model(f"{name}Config", model_name or f"{name}ForCausalLM", settings)
    return Network("decoder", lambda: Masked(make()), padded_tokens, trains=trains)


def cached_inputs():
    return torch.randint(2, 99, (1, 1)), *(torch.randn(1, 2, 7, 8) for _ in range(4))


def vision(name, model_name, trains=None, **settings):
    """A network of images."""
    make = model(f"{name}Config", model_name, VIT | settings)
    return Network("vision", lambda: First(make()), image(32), trains=trains)


def speech(name, model_name=None):
    """A network of sound."""
    make = model(f"{name}Config", model_name or f"{name}Model", SPEECH)
    return Network("speech", lambda: First(make()), lambda: (torch.randn(1, 400),))


def pair(name, settings, trains=None):
    """An encoder-decoder of tokens."""
    make = model(f"{name}Config", f"{name}ForConditionalGeneration", settings)
    return Network("encoder-decoder", lambda: Pair(make()), lambda: (*tokens(10)(), *tokens(6)()), trains=trains)


WHISPER = BART | {"num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 20}
MARKERS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}

NETWORKS = {
    "bert": encoder("Bert", "BertForSequenceClassification", trains="classes"),
    "roberta": encoder("Roberta", pad_token_id=1),
    "distilbert": encoder("DistilBert", dim=32, n_layers=2, n_heads=4, hidden_dim=64),
    "albert": encoder("Albert", embedding_size=16),
    "electra": encoder("Electra", embedding_size=16),
    "mobilebert": encoder("MobileBert", embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16),
    "gpt2": decoder("GPT2", "GPT2LMHeadModel", vocab_size=99, n_embd=32, n_layer=2, n_head=4, use_cache=False),
    "gpt_neox": decoder("GPTNeoX", **LLAMA),
    "llama": decoder("Llama", trains="classes", **LLAMA),
    "mistral": decoder("Mistral", **LLAMA, sliding_window=4),
    "qwen2": decoder("Qwen2", **LLAMA),
    "gemma": decoder("Gemma", **LLAMA, head_dim=8, pad_token_id=0),
    "opt": decoder("OPT", **LLAMA, ffn_dim=64, word_embed_proj_dim=32, pad_token_id=1),
    "bloom": decoder("Bloom", vocab_size=99, hidden_size=32, n_layer=2, n_head=4, use_cache=False),
    "llama_cached": Network(
        "decoder", lambda: Cached(model("LlamaConfig", "LlamaForCausalLM", LLAMA)()), cached_inputs
    ),
    "t5": pair("T5", T5, trains="classes"),
    "bart": pair("Bart", BART),
    "whisper": Network(
        "encoder-decoder",
        lambda: Pair(model("WhisperConfig", "WhisperForConditionalGeneration", WHISPER | MARKERS)(), "input_features"),
        lambda: (torch.randn(1, 8, 32), torch.randint(3, 99, (1, 6))),
    ),
    "wav2vec2": speech("Wav2Vec2", "Wav2Vec2ForCTC"),
    "hubert": speech("Hubert"),
    "vit_transformers": vision("ViT", "ViTForImageClassification", trains="classes", hidden_dropout_prob=0.0),
    "deit": vision("DeiT", "DeiTForImageClassification"),
    "beit": vision("Beit", "BeitForImageClassification", use_relative_position_bias=True),
    "clip": Network("vision", Clip, lambda: (torch.randint(2, 98, (2, 8)), torch.randn(2, 3, 32, 32))),
    "segformer": Network(
        "segmentation",
        lambda: First(
            transformers.SegformerForSemanticSegmentation(
                transformers.SegformerConfig(
                    hidden_sizes=[8, 16, 24, 32],
                    depths=[1, 1, 1, 1],
                    num_attention_heads=[1, 2, 2, 4],
                    decoder_hidden_size=16,
                    drop_path_rate=0.0,
                    classifier_dropout_prob=0.0,
                )
            )
        ),
        image(64),
        trains="planes",
    ),
}
