"""What the plots and explorers are made of: grids, diagrams, the map, tables."""
