"""The experiments by subject; the texts of each file are in the TOML file of the same name."""
