"""Networks of torchvision, one per family at least, as users export them: whole where small, else fewer blocks."""

import torch
import torchvision.models as zoo
from torch import nn
from torchvision.models.detection import retinanet, ssd, ssdlite
from torchvision.ops import FeaturePyramidNetwork

from tests.models.circulation.network import Network, image


class Pyramid(nn.Module):
    """The backbone of detectors: features of three sizes, merged from the top."""

    def __init__(self):
        super().__init__()
        names = {"layer2": "fine", "layer3": "middle", "layer4": "coarse"}
        body = zoo.resnet18(weights=None)
        self.body = zoo._utils.IntermediateLayerGetter(body, names)
        self.pyramid = FeaturePyramidNetwork([128, 256, 512], 64)

    def forward(self, x):
        return tuple(self.pyramid(self.body(x)).values())


class RetinaNetHeads(nn.Module):
    """Classes and boxes of every anchor of a pyramid's features."""

    def __init__(self):
        super().__init__()
        self.backbone = Pyramid()
        self.head = retinanet.RetinaNetHead(64, 9, 11)

    def forward(self, x):
        found = self.head(list(self.backbone(x)))
        return found["cls_logits"], found["bbox_regression"]


class SsdHeads(nn.Module):
    """Classes and boxes of SSD on two feature maps of VGG-like convolutions."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(3, 2, 1, ceil_mode=True))
        self.head = ssd.SSDHead([32, 64], [4, 6], 11)

    def forward(self, x):
        fine = self.first(x)
        found = self.head([fine, self.second(fine)])
        return found["cls_logits"], found["bbox_regression"]


class SsdLiteHeads(nn.Module):
    """Depthwise heads of SSDlite on MobileNet features."""

    def __init__(self):
        super().__init__()
        self.features = zoo.mobilenet_v2(weights=None).features
        self.head = ssdlite.SSDLiteHead([1280], [6], 11, nn.BatchNorm2d)

    def forward(self, x):
        found = self.head([self.features(x)])
        return found["cls_logits"], found["bbox_regression"]


def classifier(name, side, slow=False, **settings):
    """A classifier of images by its name in torchvision."""
    settings = {"num_classes": 10, "weights": None} | settings
    return Network("classification", lambda: zoo.get_model(name, **settings), image(side), slow)


def segmentation(name, slow=False):
    """A segmentation network, with its auxiliary head where it has one."""
    settings = {"num_classes": 5, "weights": None, "weights_backbone": None}
    if not name.startswith("lraspp"):
        settings["aux_loss"] = True
    return Network("segmentation", lambda: zoo.get_model(name, **settings), image(48), slow)


def small_swin():
    """Swin with two stages: shifted windows, relative positions, patch merging."""
    return zoo.SwinTransformer([4, 4], 24, [2, 2], [3, 6], [4, 4], num_classes=10)


def small_maxvit():
    """MaxViT with two stages: convolutions, windows and grids of attention."""
    return zoo.MaxVit((56, 56), 16, 7, [16, 32], [1, 1], 8, 0.0, num_classes=10)


def small_vit():
    """ViT with two layers."""
    return zoo.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10)


def small_convnext():
    """ConvNeXt with three stages."""
    settings = zoo.convnext.CNBlockConfig
    return zoo.ConvNeXt([settings(16, 32, 1), settings(32, 64, 1), settings(64, None, 1)], num_classes=10)


NETWORKS = {
    "alexnet": classifier("alexnet", 224, slow=True),
    "vgg11_bn": classifier("vgg11_bn", 224, slow=True),
    "resnet18": classifier("resnet18", 64),
    "resnext50": classifier("resnext50_32x4d", 64, slow=True),
    "wide_resnet50": classifier("wide_resnet50_2", 64, slow=True),
    "densenet121": classifier("densenet121", 64, slow=True),
    "googlenet": classifier("googlenet", 64, slow=True, aux_logits=False, init_weights=False),
    "inception_v3": classifier("inception_v3", 96, slow=True, aux_logits=False, init_weights=False),
    "mobilenet_v2": classifier("mobilenet_v2", 64, slow=True),
    "mobilenet_v3": classifier("mobilenet_v3_small", 64),
    "shufflenet_v2": classifier("shufflenet_v2_x0_5", 64, slow=True),
    "squeezenet": classifier("squeezenet1_1", 64),
    "mnasnet": classifier("mnasnet0_5", 64, slow=True),
    "efficientnet": classifier("efficientnet_b0", 64, slow=True),
    "efficientnet_v2": classifier("efficientnet_v2_s", 64, slow=True),
    "regnet": classifier("regnet_y_400mf", 64, slow=True),
    "convnext": Network("classification", small_convnext, image(64), trains="classes"),
    "vit": Network("classification", small_vit, image(32), oldest=13),
    "swin": Network("classification", small_swin, image(64)),
    "swin_v2": classifier("swin_v2_t", 64, slow=True),
    "maxvit": Network("classification", small_maxvit, image(56), slow=True, oldest=12),
    "fcn_resnet50": segmentation("fcn_resnet50", slow=True),
    "deeplab_v3": segmentation("deeplabv3_mobilenet_v3_large", slow=True),
    "lraspp": segmentation("lraspp_mobilenet_v3_large", slow=True),
    "pyramid": Network("detection", Pyramid, image(64), slow=True),
    "retinanet_heads": Network("detection", RetinaNetHeads, image(64), slow=True),
    "ssd_heads": Network("detection", SsdHeads, image(64), trains="squares"),
    "ssdlite_heads": Network("detection", SsdLiteHeads, image(64), slow=True),
    "r2plus1d": Network(
        "classification",
        lambda: zoo.video.r2plus1d_18(weights=None, num_classes=10),
        lambda: (torch.randn(1, 3, 4, 32, 32),),
        slow=True,
    ),
}
