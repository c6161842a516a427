"""Training for Best-of-N on TRL: `MaxKTrainer` and `MaxKConfig`."""

from maxk.train.config import MaxKConfig
from maxk.train.trainer import MaxKTrainer

__all__ = ["MaxKConfig", "MaxKTrainer"]
