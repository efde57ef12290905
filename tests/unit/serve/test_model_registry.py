"""Routes between languages and names of models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from seq2see.serve.authentication import ApiKeyStore, add_api_key
from seq2see.serve.errors import Forbidden, UnsupportedLanguagePair
from seq2see.serve.model_registry import DefaultAndTorchTranslators, ModelRegistry
from seq2see.serve.service import Service

Registry = Callable[..., ModelRegistry]


def test_routes_are_direct_or_use_one_pivot(registry: Registry) -> None:
    models = registry("fr-en", "fr-it", "it-de", "en-de", "de-nl")
    assert models.find_route("fr", "en").via == []
    assert models.find_route("FR", "de").via == ["en"]
    with pytest.raises(UnsupportedLanguagePair):
        models.find_route("fr", "nl")
    assert models.find_route("de", "de").models == ()
    assert models.find_targets("fr") == ["fr", "it", "en", "de"]


def test_model_within_one_language_is_used(registry: Registry) -> None:
    models = registry("en-en", "en-de")
    assert [model.name for model in models.find_route("en", "en").models] == ["en-en"]
    assert models.find_route("de", "de").models == ()


def test_direct_model_is_preferred_to_pivot(registry: Registry) -> None:
    models = registry("fr-en", "en-de", "fr-de")
    assert [model.name for model in models.find_route("fr", "de").models] == ["fr-de"]


def test_models_with_the_same_name_get_unique_names(registry: Registry, tmp_path: Path) -> None:
    (model,) = registry("en-de")
    loaded = DefaultAndTorchTranslators(model.translator, model.torch_translator)
    directories = [tmp_path / parent / "model" for parent in "abc"]
    models = ModelRegistry.load(directories, lambda _: loaded)
    assert [each.name for each in models] == ["model", "model-2", "model-3"]


def test_request_keeps_its_model_when_it_is_reloaded(registry: Registry, tmp_path: Path) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    old, new = (next(iter(registry(pair))) for pair in ("fr-en", "en-de"))
    loads = iter(DefaultAndTorchTranslators(m.translator, m.torch_translator) for m in (old, new))
    models = ModelRegistry.load([directory], lambda _: next(loads))
    (before,) = models.find_route("fr", "en").models
    (directory / "config.json").write_text("{}", "utf-8")
    outcomes = [outcome for _ in range(2) for _, outcome in models.reload_changed()]
    assert outcomes == ["replaced"]
    assert (before.source, before.translator) == ("fr", old.translator)
    (after,) = models.find_route("en", "de").models
    assert (after.translator, after.torch_translator) == (new.translator, new.torch_translator)
    with pytest.raises(UnsupportedLanguagePair):
        models.find_route("fr", "en")


def test_any_error_of_a_reload_keeps_the_model(registry: Registry, tmp_path: Path) -> None:
    models = registry("en-de")

    def fail(_: Path) -> DefaultAndTorchTranslators:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    models = ModelRegistry([replace(models.first, path=tmp_path)], fail)
    (tmp_path / "config.json").write_text("{}")
    outcomes = [outcome for _ in range(2) for _, outcome in models.reload_changed()]
    assert outcomes == ["failed"]
    assert models.first.reload_error == "a file of the model is damaged"


def test_keys_are_reloaded_if_models_cannot_be(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    key = add_api_key(path, "alice")
    service.api_keys = ApiKeyStore(path)
    service.models.reload_changed = lambda: 1 / 0  # type: ignore[assignment,return-value]
    path.write_text("", "utf-8")
    with pytest.raises(ZeroDivisionError):
        service.run_maintenance()
    with pytest.raises(Forbidden):
        service.api_keys.find_key(key)
