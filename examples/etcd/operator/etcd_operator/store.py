"""Stores of backups, for the agent: a bucket, or a folder of a volume.

A file counts only if it has a record beside it, which is written once the whole file is there and
verified. No name is ever written twice.
"""

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

#: Bytes of a part of a file. Two parts are in memory at most; S3 takes 10,000 parts, so 160 GiB.
PART = 16 << 20
#: Seconds for one request that a store may take, and until it counts as unreachable.
SLOW, DOWN = 300, 60


class StoreError(Exception):
    """A store refused a request, or did not do what it had confirmed."""


def check_space(folder: Path, needed: int, hint: str) -> None:
    """Raise `StoreError` if the volume of a folder has less space than is needed."""
    if (free := shutil.disk_usage(folder).free) < needed:
        size = f"{free >> 20} MiB free, and about {needed >> 20} MiB are needed"
        raise StoreError(f"the volume has {size}: {hint}")


class Folder:
    """A folder of a volume."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def write(self, name: str, parts: AsyncIterator[bytes], expected: int) -> None:
        """Write a file; leave no file if `parts` raises. `expected` is its approximate size.

        Write to a `.part` file, read it back from the disk, and then rename it.
        """
        target = self._path / name
        part = target.with_name(f"{target.name}.part")
        written = hashlib.sha256()
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            check_space(target.parent, expected, "enlarge it, or keep fewer backups")
            with part.open("wb") as file:
                async for block in parts:
                    written.update(block)
                    await asyncio.to_thread(file.write, block)
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if await asyncio.to_thread(_digest, part) != written.digest():
                raise StoreError("the volume returns other bytes than were written: replace it")
            part.rename(target)
            _sync(target.parent)
        except OSError as error:
            raise StoreError(f"the volume cannot be written: {error.strerror}") from error
        finally:
            part.unlink(missing_ok=True)

    async def read(self, name: str) -> AsyncIterator[bytes]:
        """Yield the content of a file."""
        with _told(name), (self._path / name).open("rb") as file:
            while block := await asyncio.to_thread(file.read, PART):
                yield block

    async def create(self, name: str, content: bytes) -> None:
        """Write a small file, which must not exist."""

        async def parts() -> AsyncIterator[bytes]:
            yield content

        if (self._path / name).exists():
            raise StoreError(f"{name} exists already")
        await self.write(name, parts(), len(content))

    async def size(self, name: str) -> int:
        """Return the size of a file."""
        with _told(name):
            return (self._path / name).stat().st_size

    async def names(self, folder: str) -> list[str]:
        """Return the names of all files in a folder."""
        paths = (self._path / folder).glob("*")
        return sorted(str(path.relative_to(self._path)) for path in paths if path.is_file())

    async def delete(self, name: str) -> None:
        """Delete a file; do nothing if it does not exist."""
        with _told(name):
            (self._path / name).unlink(missing_ok=True)


@contextmanager
def _told(subject: str) -> Iterator[None]:
    """Raise `StoreError`, which tells what failed, instead of `OSError`."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{subject}: {error.strerror}") from error


def _digest(file: Path) -> bytes:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").digest()


def _sync(folder: Path) -> None:
    """Sync a folder, so that a rename survives a crash."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


class Bucket:
    """A bucket of S3; each part is sent with its SHA-256, which the store verifies."""

    def __init__(self, bucket: str, prefix: str, ca: str, config: dict[str, Any]) -> None:
        import obstore
        from obstore.store import S3Store

        self._obstore = obstore
        options: Any = {
            "allow_http": True,
            "connect_timeout": timedelta(seconds=10),
            "timeout": timedelta(seconds=SLOW),
        }
        if ca:
            options["root_certificate"] = ca
        settings: Any = {"checksum_algorithm": "SHA256", **config}
        self._store = S3Store(
            bucket,
            prefix=prefix or None,
            config=settings,
            client_options=options,
            retry_config={"max_retries": 100, "retry_timeout": timedelta(seconds=DOWN)},
        )

    async def write(self, name: str, parts: AsyncIterator[bytes], expected: int) -> None:
        """Write a file in parts."""
        del expected  # a bucket does not say how much it takes
        put = self._obstore.put_async(
            self._store, name, parts, use_multipart=True, chunk_size=PART, max_concurrency=1
        )
        await self._answer(put)

    async def read(self, name: str) -> AsyncIterator[bytes]:
        """Yield the content of a file."""
        response = await self._answer(self._obstore.get_async(self._store, name))
        stream = response.stream(min_chunk_size=1 << 20)
        while (block := await self._answer(anext(stream, None))) is not None:
            yield bytes(block)

    async def create(self, name: str, content: bytes) -> None:
        """Write a small file, which must not exist."""
        put = self._obstore.put_async(
            self._store, name, content, mode="create", use_multipart=False
        )
        await self._answer(put)

    async def size(self, name: str) -> int:
        """Return the size of a file."""
        meta = await self._answer(self._obstore.head_async(self._store, name))
        return int(meta["size"])

    async def names(self, folder: str) -> list[str]:
        """Return the names of all files in a folder."""
        files = await self._answer(self._obstore.list(self._store, f"{folder}/").collect_async())
        return sorted(file["path"] for file in files)

    async def delete(self, name: str) -> None:
        """Delete a file."""
        await self._answer(self._obstore.delete_async(self._store, name))

    async def _answer(self, answer: Any) -> Any:
        """Return an answer of the store; raise `StoreError` with the first sentence of an error."""
        from obstore.exceptions import BaseError

        try:
            return await answer
        except BaseError as error:
            message = str(error).partition("\n")[0].strip()
            raise StoreError(f"the store: {message[:500]}") from error


#: Both have the same methods.
Store = Folder | Bucket
