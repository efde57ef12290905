"""From a recipe to a model: the objective, the optimiser, the loop, and what listens to it."""
