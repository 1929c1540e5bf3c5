"""Learned variational MRI reconstruction that says how sure it is of every pixel. For research use only."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayesmri.api import as_kspace as as_kspace
    from bayesmri.api import calibrate as calibrate
    from bayesmri.api import check as check
    from bayesmri.api import load_model as load_model
    from bayesmri.api import reconstruct as reconstruct
    from bayesmri.api import save_model as save_model
    from bayesmri.api import simulate as simulate
    from bayesmri.api import train as train
    from bayesmri.api import undersample as undersample
    from bayesmri.api import whatif as whatif
    from bayesmri.baselines.network import Network as Network
    from bayesmri.complexes import rss as rss
    from bayesmri.io.dicom_out.write import write_dicom as write_dicom
    from bayesmri.io.formats import read as read
    from bayesmri.io.pacs.send import send as send
    from bayesmri.kspace import Header as Header
    from bayesmri.kspace import Images as Images
    from bayesmri.kspace import KSpace as KSpace
    from bayesmri.metrics import volume_metrics as volume_metrics
    from bayesmri.model import Coils as Coils
    from bayesmri.model import Model as Model
    from bayesmri.physics.coil_operator import CoilOperator as CoilOperator
    from bayesmri.physics.fidelity import prox_data as prox_data
    from bayesmri.physics.fourier import fft2c as fft2c
    from bayesmri.physics.fourier import ifft2c as ifft2c
    from bayesmri.physics.mask import MaskSpec as MaskSpec
    from bayesmri.physics.operator import Operator as Operator
    from bayesmri.physics.scaling import Scaling as Scaling
    from bayesmri.physics.sense import sensitivity_sets as sensitivity_sets
    from bayesmri.posterior.block_gaussian import BlockGaussian as BlockGaussian
    from bayesmri.posterior.delta import Delta as Delta
    from bayesmri.recon.acquisition import Sampling as Sampling
    from bayesmri.recon.batch.folder import Batch as Batch
    from bayesmri.recon.batch.folder import reconstruct_folder as reconstruct_folder
    from bayesmri.recon.export import export as export
    from bayesmri.recon.reconstruct import Reconstruction as Reconstruction
    from bayesmri.recon.request import Options as Options
    from bayesmri.registry import register as register
    from bayesmri.regularizers.base import ParametricRegularizer as ParametricRegularizer
    from bayesmri.regularizers.base import Regularizer as Regularizer
    from bayesmri.regularizers.energy import EnergyRegularizer as EnergyRegularizer
    from bayesmri.regularizers.foe import FoE as FoE
    from bayesmri.regularizers.foe import FoEConfig as FoEConfig
    from bayesmri.regularizers.tdv import TDV as TDV
    from bayesmri.regularizers.tdv import TDVConfig as TDVConfig
    from bayesmri.regularizers.tv import TV as TV
    from bayesmri.regularizers.tv import TVConfig as TVConfig
    from bayesmri.sampler import Sampler as Sampler
    from bayesmri.solver import Scheme as Scheme
    from bayesmri.solver import unroll as unroll
    from bayesmri.training.settings import TrainConfig as TrainConfig

__version__ = version("bayesmri")

# by the module that defines it, resolved on first use: `import bayesmri` must not wait for torch
_HOMES = {
    "Batch": "recon.batch.folder",
    "BlockGaussian": "posterior.block_gaussian",
    "CoilOperator": "physics.coil_operator",
    "Coils": "model",
    "Delta": "posterior.delta",
    "EnergyRegularizer": "regularizers.energy",
    "FoE": "regularizers.foe",
    "FoEConfig": "regularizers.foe",
    "Header": "kspace",
    "Images": "kspace",
    "KSpace": "kspace",
    "MaskSpec": "physics.mask",
    "Model": "model",
    "Network": "baselines.network",
    "Operator": "physics.operator",
    "Options": "recon.request",
    "ParametricRegularizer": "regularizers.base",
    "Reconstruction": "recon.reconstruct",
    "Regularizer": "regularizers.base",
    "Sampler": "sampler",
    "Sampling": "recon.acquisition",
    "Scaling": "physics.scaling",
    "Scheme": "solver",
    "TDV": "regularizers.tdv",
    "TDVConfig": "regularizers.tdv",
    "TV": "regularizers.tv",
    "TVConfig": "regularizers.tv",
    "TrainConfig": "training.settings",
    "as_kspace": "api",
    "calibrate": "api",
    "check": "api",
    "export": "recon.export",
    "fft2c": "physics.fourier",
    "ifft2c": "physics.fourier",
    "load_model": "api",
    "prox_data": "physics.fidelity",
    "read": "io.formats",
    "reconstruct": "api",
    "reconstruct_folder": "recon.batch.folder",
    "register": "registry",
    "rss": "complexes",
    "save_model": "api",
    "sensitivity_sets": "physics.sense",
    "send": "io.pacs.send",
    "simulate": "api",
    "train": "api",
    "undersample": "api",
    "unroll": "solver",
    "volume_metrics": "metrics",
    "whatif": "api",
    "write_dicom": "io.dicom_out.write",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bayesmri' has no attribute {name!r}")
    return getattr(import_module(f"bayesmri.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
