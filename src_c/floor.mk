FLOOR_SRCS = floor.c floor_echo.c floor_costs.c floor_neighbour.c
