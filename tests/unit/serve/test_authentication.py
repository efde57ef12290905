"""API keys and request rates."""

from __future__ import annotations

import hmac
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from seq2see.errors import InputError
from seq2see.serve.authentication import ApiKeyStore, RateLimiter, add_api_key
from seq2see.serve.errors import Forbidden, RateLimited


def key_names(path: Path, *keys: str) -> list[str]:
    store = ApiKeyStore(path)
    return [store.find_key(key)[0] for key in keys]  # type: ignore[index]


def test_keys_are_stored_as_hashes(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    alice, bob = add_api_key(path, "alice"), add_api_key(path, "bob")
    assert alice not in path.read_text("utf-8")
    assert path.stat().st_mode & 0o077 == 0
    assert key_names(path, alice, bob) == ["alice", "bob"]
    for wrong in (None, "", "x", alice + "x", "\ud800", "é"):
        with pytest.raises(Forbidden):
            ApiKeyStore(path).find_key(wrong)
    with pytest.raises(InputError, match="already has a key named alice"):
        add_api_key(path, "alice")
    with pytest.raises(InputError, match="letters"):
        add_api_key(path, "x]\nsha256='0'")


def test_key_lookup_takes_constant_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every lookup compares all hashes, with a constant-time comparison."""
    path = tmp_path / "keys.toml"
    first, *_ = (add_api_key(path, name) for name in ("alice", "bob", "carol"))
    compared: list[str] = []
    compare_digest = hmac.compare_digest

    def record(ours: str, theirs: str) -> bool:
        compared.append(theirs)
        return compare_digest(ours, theirs)

    monkeypatch.setattr(hmac, "compare_digest", record)
    store = ApiKeyStore(path)
    store.find_key(first)
    assert len(set(compared)) == 3
    with pytest.raises(Forbidden):
        store.find_key("x")
    assert len(compared) == 6


def test_key_is_appended_on_its_own_line(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    alice = add_api_key(path, "alice")
    path.write_text(path.read_text("utf-8").rstrip(), "utf-8")
    bob = add_api_key(path, "bob")
    assert key_names(path, alice, bob) == ["alice", "bob"]


def test_keys_can_be_added_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, loads = tmp_path / "keys.toml", tomllib.loads

    def load_slowly(text: str) -> dict[str, Any]:
        time.sleep(0.01)
        return loads(text)

    monkeypatch.setattr(tomllib, "loads", load_slowly)

    def add(name: str) -> str | None:
        try:
            return add_api_key(path, name)
        except InputError:
            return None

    names = sorted([f"key{number}" for number in range(3)] * 8)
    with ThreadPoolExecutor(8) as pool:
        keys = [key for key in pool.map(add, names) if key]
    assert len(keys) == 3
    assert set(key_names(path, *keys)) == set(names)


def test_removed_key_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    alice = add_api_key(path, "alice")
    store = ApiKeyStore(path)
    path.write_text("", "utf-8")
    store.reload_if_changed()
    with pytest.raises(Forbidden):
        store.find_key(alice)


@pytest.mark.parametrize("text", ["[a]\nsha256 = 'xyz'", "[a]\nkey = 'open'", "nonsense", "\xff"])
def test_invalid_key_file_is_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(text, "latin-1")
    with pytest.raises(InputError, match="key file"):
        ApiKeyStore(path)


def test_error_does_not_quote_key_in_place_of_hash(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text('[alice]\nsha256 = "my-secret-key"\n', "utf-8")
    with pytest.raises(
        InputError, match=r"must be a valid key file: \[alice\] `sha256` must"
    ) as raised:
        ApiKeyStore(path)
    assert "my-secret-key" not in str(raised.value)


def test_rates_refill_and_are_per_client(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("seq2see.serve.authentication.time.monotonic", lambda: now)
    limiter = RateLimiter(3)
    for _ in range(3):
        limiter.check_rate("a")
    with pytest.raises(RateLimited) as raised:
        limiter.check_rate("a")
    assert raised.value.headers == {"X-Error-Code": "rate_limited", "Retry-After": "20"}
    limiter.check_rate("b")
    limiter.check_rate("a", 0)  # a key without a rate
    now += 20
    limiter.check_rate("a")
    with pytest.raises(RateLimited):
        limiter.check_rate("a")


def test_rate_limiter_forgets_oldest_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2see.serve.authentication._MAX_CLIENTS", 3)
    limiter = RateLimiter(1)
    for client in "abcd":
        limiter.check_rate(client)
    limiter.check_rate("a")  # forgotten, so it may send again
    with pytest.raises(RateLimited):
        limiter.check_rate("d")
