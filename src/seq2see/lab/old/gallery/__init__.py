"""The pictures that the notes point at and no longer have, redrawn from our own model: item 60."""
