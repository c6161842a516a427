"""Run by test_training.py: verl's trainer on the pocket model, and what was seen of it.

All is verl's but the sampler: its rollout engines need a GPU, so the completions come from
transformers in an actor of Ray, behind the interface of verl's own client. The driver, the
TransferQueue, the replay buffer, the agent loop, the reward workers, two FSDP processes on gloo,
the losses and the optimiser are real.

    python -m tests.integrations.train FOLDER METHOD key=value ...
"""

import sys
from pathlib import Path
from typing import Any

import pandas
import ray
import torch
import transfer_queue as tq
from hydra import compose, initialize_config_dir
from transformers import AutoModelForCausalLM
from verl.single_controller.base.decorator import Dispatch, register
from verl.trainer import config as verl_config
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1 import AgentLoopManagerTQ, get_trainer_cls
from verl.utils.distributed import initialize_global_process_group_ray
from verl.workers.engine_workers import ActorRolloutRefWorker
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

from maxk.data import load
from maxk.integrations.verl.reward import row
from maxk.pocket import resolve

LENGTH = 110
PROMPTS, N = 4, 6
TENSORS = ["input_ids", "responses", "response_mask", "advantages", "rm_scores"]
OVERRIDES = [
    "actor_rollout_ref.model.use_remove_padding=false",
    "+actor_rollout_ref.model.override_config.attn_implementation=eager",
    "actor_rollout_ref.actor.strategy=fsdp2",
    "actor_rollout_ref.actor.fsdp_config.use_torch_compile=false",
    "+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=fp32",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=6",
    "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum",
    "actor_rollout_ref.actor.use_kl_loss=false",
    "actor_rollout_ref.actor.optim.optimizer=SGD",
    "actor_rollout_ref.actor.optim.weight_decay=0",
    "actor_rollout_ref.actor.optim.clip_grad=1e9",
    f"actor_rollout_ref.actor.ppo_mini_batch_size={PROMPTS}",
    "actor_rollout_ref.rollout.name=transformers",
    "actor_rollout_ref.rollout.nnodes=1",
    "actor_rollout_ref.rollout.calculate_log_probs=false",
    f"actor_rollout_ref.rollout.n={N}",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=6",
    "actor_rollout_ref.rollout.agent.num_workers=1",
    "reward.num_workers=1",
    "reward.custom_reward_function.path=pkg://maxk.integrations.verl.reward",
    "+reward.custom_reward_function.reward_kwargs.workers=2",
    f"data.train_batch_size={PROMPTS}",
    "data.max_prompt_length=512",
    f"data.max_response_length={LENGTH}",
    "data.dataloader_num_workers=0",
    "trainer.nnodes=1",
    "trainer.device=cpu",
    "trainer.logger=[console]",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.save_freq=-1",
    "trainer.resume_mode=disable",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
]


class HostWorker(ActorRolloutRefWorker):
    """verl's worker, on gloo alone, whose weights go to the driver instead of vLLM's memory."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        initialize_global_process_group_ray(backend="gloo")  # verl would name the CPU twice

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)
    async def update_weights(self, global_steps: int | None = None, mode: str = "auto") -> dict:
        weights, _ = self.actor.engine.get_per_tensor_param()
        whole = {name: getattr(w, "full_tensor", lambda w=w: w)() for name, w in weights}
        return {name: w.detach().cpu().clone() for name, w in whole.items()}


@ray.remote
class Sampler:
    """transformers' generate in the place of a rollout engine."""

    def __init__(self, model: str) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = AutoModelForCausalLM.from_pretrained(model).eval()
        self.step = self.asked = 0

    def load(self, weights: dict[str, torch.Tensor], step: int) -> None:
        self.model.load_state_dict(weights, strict=False)
        self.step = step

    def generate(self, prompt_ids: list[int]) -> TokenOutput:
        self.asked += 1
        if self.asked % (PROMPTS * N) == 0:
            raise RuntimeError("the last sample of every batch is lost")
        with torch.no_grad():
            out = self.model.generate(
                torch.tensor([prompt_ids]), do_sample=True, max_new_tokens=LENGTH, top_k=0
            )
        steps = {"min_global_steps": self.step, "max_global_steps": self.step}
        return TokenOutput(token_ids=out[0, len(prompt_ids) :].tolist(), extra_fields=steps)


class Client:
    """The one method of verl's LLMServerClient that its agent loop calls."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    async def generate(self, request_id: str, *, prompt_ids: list[int], **_: Any) -> TokenOutput:
        return await self.sampler.generate.remote(list(prompt_ids))


class Replicas:
    """The weights of the workers into the sampler, when verl's trainer says so."""

    def __init__(self, workers: Any, sampler: Any) -> None:
        self.workers, self.sampler = workers, sampler

    def state(self) -> dict[str, torch.Tensor]:
        return ray.get(self.workers.update_weights(global_steps=0))[0]

    def update_weights(self, step: int) -> None:
        ray.get(self.sampler.load.remote(self.state(), step))

    def sleep_replicas(self) -> None:
        pass


def watched(base: type) -> type:
    """A trainer of verl on this machine, with its updates written down."""

    class Watched(base):
        _enable_hybrid_replicas = False
        updates: list[dict[str, Any]]
        noted: dict[str, float]  # of maxk, of the batch

        def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
            out = super()._compute_advantage(batch, metrics)
            self.noted = {name: metrics[name] for name in metrics if name.startswith("maxk/")}
            return out

        def _init_resource_pool_mgr(self) -> None:
            super()._init_resource_pool_mgr()
            self.role_worker_mapping[Role.Actor] = ray.remote(HostWorker)

        def _setup(self) -> None:
            super()._setup()
            self.updates = []
            self.sampler = Sampler.options(num_cpus=0).remote(
                self.config.actor_rollout_ref.model.path
            )
            self.checkpoint_manager = Replicas(self.actor_rollout_wg, self.sampler)
            update = self.actor_rollout_wg.update_actor

            def noted(batch: Any) -> Any:
                where = {"keys": batch.keys, "partition_id": batch.partition_id}
                data = tq.kv_batch_get(**where, select_fields=["uid", *TENSORS])
                rows = {name: list(data[name].unbind()) for name in TENSORS}
                seen = {"step": self.global_steps, "rows": {**rows, "uid": list(data["uid"])}}
                seen["metrics"] = self.noted
                seen["before"] = self.checkpoint_manager.state()
                seen["lr_steps"] = self.config.actor_rollout_ref.actor.optim.total_training_steps
                out = update(batch)
                self.updates.append(seen | {"after": self.checkpoint_manager.state()})
                return out

            self.actor_rollout_wg.update_actor = noted

        def get_llm_client(self) -> Client:
            return Client(self.sampler)

    return Watched


def main(folder: Path, method: str, more: list[str]) -> None:
    RolloutReplicaRegistry.register("transformers", lambda: RolloutReplica)
    problems = load("pocket", "train")[:8]
    pandas.DataFrame([row(p, i) for i, p in enumerate(problems)]).to_parquet(
        folder / "train.parquet"
    )
    given = [
        f"data.train_files={folder}/train.parquet",
        f"data.val_files={folder}/train.parquet",
        f"actor_rollout_ref.model.path={resolve('pocket')}",
        f"algorithm.adv_estimator={method}",
        f"trainer.default_local_dir={folder}/checkpoints",
    ]
    where = str(Path(verl_config.__file__).parent)
    with initialize_config_dir(where, version_base=None):
        config = compose("ppo_trainer", [*OVERRIDES, *given, *more])
    gpus = config.trainer.n_gpus_per_node
    ray.init(num_cpus=8, num_gpus=gpus, include_dashboard=False, log_to_driver=True)
    trainer_class = watched(get_trainer_cls(config.trainer.v1.trainer_mode))
    config.transfer_queue.enable = True
    tq.init(config.transfer_queue)
    try:
        trainer = trainer_class(config)
        trainer.init()
        loop = AgentLoopManagerTQ.create(
            config=config,
            llm_client=trainer.get_llm_client(),
            teacher_client=None,
            reward_loop_worker_handles=trainer.get_reward_handles(),
        )
        trainer.fit(loop)
    finally:
        tq.close()
    torch.save(trainer.updates, folder / "updates.pt")
    ray.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
