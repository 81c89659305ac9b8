# Names of the package: those of the compiled core, and the classes of Python on top.
from popart_core import *

from popart import loggers as loggers
from popart import losses as losses
from popart import metrics as metrics
from popart import optim as optim
from popart import plot as plot
from popart.builder import Builder as Builder
from popart.inference_form import inference_form as inference_form
from popart.loading import load as load
from popart.losses import IdentityLoss as IdentityLoss
from popart.losses import L1Loss as L1Loss
from popart.losses import Loss as Loss
from popart.losses import NllLoss as NllLoss
from popart.opsets import AiGraphcoreOpset1 as AiGraphcoreOpset1
from popart.opsets import AiOnnx as AiOnnx
from popart.opsets import AiOnnxMlOpset1 as AiOnnxMlOpset1
from popart.opsets import AiOnnxOpset6 as AiOnnxOpset6
from popart.opsets import AiOnnxOpset7 as AiOnnxOpset7
from popart.opsets import AiOnnxOpset8 as AiOnnxOpset8
from popart.opsets import AiOnnxOpset9 as AiOnnxOpset9
from popart.opsets import AiOnnxOpset10 as AiOnnxOpset10
from popart.opsets import AiOnnxOpset11 as AiOnnxOpset11
from popart.session import InferenceSession as InferenceSession
from popart.session import OutOfMemoryException as OutOfMemoryException
from popart.session import TrainingSession as TrainingSession
from popart.tensorinfo import TensorInfo as TensorInfo
from popart.trainer import Trainer as Trainer

AiOnnx6 = AiOnnxOpset6
AiOnnx7 = AiOnnxOpset7
AiOnnx8 = AiOnnxOpset8
AiOnnx9 = AiOnnxOpset9
AiOnnx10 = AiOnnxOpset10
AiOnnx11 = AiOnnxOpset11
AiOnnxMl1 = AiOnnxMlOpset1
AiGraphcore1 = AiGraphcoreOpset1

__version__: str
__openpopart_version__: str
defaultAiOnnxOpset: int
defaultAiOnnxMlOpset: int
defaultAiGraphcoreOpset: int
