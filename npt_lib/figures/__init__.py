"""What npt_lib.plots and npt_lib.widgets are made of: grids, diagrams, the map, tables."""
