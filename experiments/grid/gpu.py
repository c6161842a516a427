"""How busy the GPU is, asked of nvidia-smi once a second."""

import shutil
import statistics
import subprocess
import threading
from typing import Any

COMMAND = (
    *("nvidia-smi", "--query-gpu=utilization.gpu,memory.used,power.draw"),
    *("--format=csv,noheader,nounits", "--loop-ms=1000"),
)


class GpuWatch:
    """Counts from its making on; `since` says how a stretch of time was. Nothing without a GPU."""

    def __init__(self, command: tuple[str, ...] = COMMAND) -> None:
        self.seen: list[tuple[float, float, float]] = []  # busy %, MiB, W
        self.process: subprocess.Popen[str] | None = None
        if shutil.which(command[0]):
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            self.reader = threading.Thread(target=self._read, daemon=True)
            self.reader.start()

    def _read(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        with self.process.stdout as said:
            for line in said:
                try:
                    busy, memory, power = map(float, line.split(","))
                except ValueError:  # one that does not say
                    continue
                self.seen.append((busy, memory, power))

    def mark(self) -> int:
        return len(self.seen)

    def since(self, mark: int) -> dict[str, Any]:
        """What was seen since a mark."""
        seen = self.seen[mark:]
        if not seen:
            return {}
        busy, memory, power = zip(*seen, strict=True)
        return {
            "seconds": len(seen),
            "busy_percent": round(statistics.fmean(busy), 1),
            "busy_over_half": round(sum(each > 50 for each in busy) / len(busy), 3),
            "memory_mib": max(memory),
            "watts": round(statistics.fmean(power)),
        }

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.reader.join()
