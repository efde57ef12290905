"""From what was written down of an attention to the map of all its queries and keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2see.explain.assembly import Path
from seq2see.explain.tape import Rows, Tape
from seq2see.explain.tensors import array
from seq2see.explain.trace import AttentionMap, HeadSummary
from seq2see.model import AttentionRecord, Site

# H heads, T queries, S keys, D features of a head, R rows of a step


@dataclass(frozen=True, slots=True)
class Common:
    """What a map knows from the model rather than from the tape."""

    scale: float | None
    off: tuple[int, ...]
    mixtures: bool


def encoder_map(site: Site, record: AttentionRecord, whole: bool, common: Common) -> AttentionMap:
    """Return an attention of the encoder."""
    weights_HTS = record.weights_BHTS[0]
    hidden = record.hidden_BHTS
    mask = None if hidden is None else hidden.expand_as(record.weights_BHTS)[0]
    more = {}
    if whole:
        more = {
            "scores": array(record.scores_BHTS[0]),
            "queries": array(record.queries_BHTD[0]),
            "keys": array(record.keys_BHSD[0]),
            "values": array(record.values_BHSD[0]),
        }
    mixed = weights_HTS.size(1) != weights_HTS.size(2) or common.mixtures
    axes = ("source", "mixture" if mixed else "source")
    return _map(site, axes, weights_HTS, mask, common, more)


def decoder_map(site: Site, tape: Tape, path: Path, common: Common) -> AttentionMap:
    """Return an attention of the decoder along a path, the shorter rows filled up with zeros."""
    rows = tape.rows(site, path.rows)
    keys = rows[-1].weights_RHS.size(-1)
    weights_HTS = _stacked([r.weights_RHS for r in rows], keys)
    mask_HTS = _mask(rows, keys, causal=site.kind == "self")
    more = {}
    if rows[0].scores_RHS is not None:
        more = {
            "scores": array(_stacked([r.scores_RHS for r in rows], keys)),
            "queries": array(_stacked([r.queries_RHD for r in rows])),
            **_keys_values(site, tape, rows),
        }
    axes = ("input", "input") if site.kind == "self" else ("output", "source")
    return _map(site, axes, weights_HTS, mask_HTS, common, more)


def _keys_values(site: Site, tape: Tape, rows: Sequence[Rows]) -> dict[str, NDArray[Any]]:
    if site.kind == "cross":
        keys, values = tape.memory[site]
        return {"keys": array(keys), "values": array(values)}
    return {
        "keys": array(_stacked([r.keys_RHD for r in rows])),
        "values": array(_stacked([r.values_RHD for r in rows])),
    }


def _stacked(rows: Sequence[Tensor | None], width: int | None = None) -> Tensor:
    """Return [H, T, width] from T times [H, up to width]."""
    given = [row for row in rows if row is not None]
    if width is None:
        return torch.stack(given, dim=1)
    padded = [torch.nn.functional.pad(row, (0, width - row.size(-1))) for row in given]
    return torch.stack(padded, dim=1)


def _mask(rows: Sequence[Rows], keys: int, causal: bool) -> Tensor | None:
    """Return what was hidden from each query; later tokens are, though nobody had to hide them."""
    hidden = [
        torch.zeros_like(row.weights_RHS, dtype=torch.bool)
        if row.hidden_RHS is None
        else row.hidden_RHS
        for row in rows
    ]
    mask_HTS = _stacked(hidden, keys)
    if causal:
        mask_HTS = mask_HTS | torch.ones_like(mask_HTS).triu(1)
    return mask_HTS if mask_HTS.any() else None


def _map(
    site: Site,
    axes: tuple[Any, Any],
    weights_HTS: Tensor,
    mask_HTS: Tensor | None,
    common: Common,
    more: dict[str, NDArray[Any]],
) -> AttentionMap:
    if mask_HTS is not None and not mask_HTS.any():
        mask_HTS = None
    alike = mask_HTS is not None and bool((mask_HTS == mask_HTS[:1]).all())
    mask = None if mask_HTS is None else array(mask_HTS[0] if alike else mask_HTS, np.uint8)
    return AttentionMap(
        stack=site.stack,
        layer=site.layer,
        kind=site.kind,
        rows=axes[0],
        columns=axes[1],
        weights=array(weights_HTS),
        mask=mask,
        heads=tuple(summaries(weights_HTS, near=axes[0] == axes[1])),
        off=common.off,
        scale=common.scale,
        **more,
    )


def summaries(weights_HTS: Tensor, near: bool) -> Iterator[HeadSummary]:
    """Yield each head in three numbers; `near`: queries and keys are the same tokens."""
    entropy_H = torch.special.entr(weights_HTS).sum(-1).mean(-1).tolist()
    peak_H = weights_HTS.amax(-1).mean(-1).tolist()
    _, queries, keys = weights_HTS.shape
    places_S = torch.arange(keys, device=weights_HTS.device)
    apart_TS = (places_S - torch.arange(queries, device=places_S.device)[:, None]).abs()
    distance_H = (weights_HTS * apart_TS).sum(-1).mean(-1).tolist()
    for entropy, peak, distance in zip(entropy_H, peak_H, distance_H, strict=True):
        yield HeadSummary(entropy=entropy, peak=peak, distance=distance if near else None)
