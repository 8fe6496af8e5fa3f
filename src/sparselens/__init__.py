"""Learn the few linear measurements that sparse data needs, and get every vector back exactly, with a proof.

Names are imported when they are first used, so that ``import sparselens`` is quick and loads torch only when
something needs it.
"""

from importlib import import_module
from typing import Any

from sparselens._version import __version__

# Public name -> the module that defines it. This table is the whole public interface.
_PUBLIC = {
    # encoders
    "GaussianEncoder": "sparselens.encoders.random",
    "PartialFourierEncoder": "sparselens.encoders.random",
    "PCAEncoder": "sparselens.encoders.spectral",
    "LBCSEncoder": "sparselens.encoders.spectral",
    "SimpleAE": "sparselens.encoders.autoencoders",
    "DeepAE": "sparselens.encoders.autoencoders",
    "L1AE": "sparselens.encoders.l1ae",
    "fit_together": "sparselens.encoders.together",
    "ISTAAE": "sparselens.encoders.l1ae",
    "CertificateEncoder": "sparselens.encoders.certificate",
    # decoders
    "L1Decoder": "sparselens.decoders.l1",
    "LinearDecoder": "sparselens.decoders.linear",
    "UnrolledDecoder": "sparselens.decoders.unrolled",
    "CoSaMPDecoder": "sparselens.decoders.cosamp",
    "NNLSDecoder": "sparselens.decoders.nnls",
    "OMPDecoder": "sparselens.decoders.omp",
    # results
    "Recovery": "sparselens.recovery",
    "Status": "sparselens.recovery",
    "recovery_report": "sparselens.metrics",
    "encode_lossless": "sparselens.lossless",
    "decode_lossless": "sparselens.lossless",
    # whole files
    "encode_file": "sparselens.filejobs",
    "decode_file": "sparselens.filejobs",
    # sparsity models
    "Sparse": "sparselens.sparsity",
    "BlockSparse": "sparselens.sparsity",
    "OneHot": "sparselens.sparsity",
    # data
    "Dataset": "sparselens.data",
    "load_dataset": "sparselens.data",
    "list_datasets": "sparselens.data",
    "read_matrix": "sparselens.data",
    # models on disk
    "load": "sparselens.persist",
    # how many measurements a file needs
    "plan": "sparselens.experiments.plan",
    "Plan": "sparselens.experiments.plan",
}
_MODULES = (
    "certificate",
    "data",
    "decoders",
    "encoders",
    "lossless",
    "metrics",
    "persist",
    "recovery",
    "sparsity",
    "train",
    "unroll",
    "xml",
)

__all__ = ["__version__", *_PUBLIC, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        value = getattr(import_module(_PUBLIC[name]), name)
        globals()[name] = value  # the next look-up does not come here
        return value
    if name in _MODULES:
        return import_module(f"sparselens.{name}")
    raise AttributeError(f"module 'sparselens' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
