"""Routes between languages and names of models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from seq2see.serve.model_registry import DefaultAndTorchTranslators, LanguageRoute, ModelRegistry

Registry = Callable[..., ModelRegistry]


def find_route(models: ModelRegistry, source: str, target: str) -> LanguageRoute:
    route = models.find_route(source, target)
    assert route is not None
    return route


def test_routes_are_direct_or_use_one_pivot(registry: Registry) -> None:
    models = registry("fr-en", "fr-it", "it-de", "en-de", "de-nl")
    assert find_route(models, "fr", "en").via == []
    assert find_route(models, "FR", "de").via == ["en"]
    assert models.find_route("fr", "nl") is None
    assert find_route(models, "de", "de").models == ()
    assert models.find_targets("fr") == ["fr", "it", "en", "de"]


def test_model_within_one_language_is_used(registry: Registry) -> None:
    models = registry("en-en", "en-de")
    assert [model.name for model in find_route(models, "en", "en").models] == ["en-en"]
    assert find_route(models, "de", "de").models == ()


def test_direct_model_is_preferred_to_pivot(registry: Registry) -> None:
    models = registry("fr-en", "en-de", "fr-de")
    assert [model.name for model in find_route(models, "fr", "de").models] == ["fr-de"]


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
    (before,) = find_route(models, "fr", "en").models
    (directory / "config.json").write_text("{}", "utf-8")
    outcomes = [outcome for _ in range(2) for _, outcome in models.reload_changed()]
    assert outcomes == ["replaced"]
    assert (before.source, before.translator) == ("fr", old.translator)
    (after,) = find_route(models, "en", "de").models
    assert (after.translator, after.torch_translator) == (new.translator, new.torch_translator)
    assert models.find_route("fr", "en") is None
