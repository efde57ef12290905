"""The lab: claims about the Transformer, each as an experiment on the project's own parts.

`experiment` is the frame: a claim, a prediction, measurements with their expectations, a verdict.
`bench` has what experiments share: seeds, and small models that are trained once. `pictures` draws.
Every other file is a topic and reads like the experiments it has. `registry` finds them, `runner`
runs them, `report` and `table` show what came out.
"""
