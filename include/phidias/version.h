// The version of the library that a program was compiled against.
#pragma once

#define PHIDIAS_VERSION_MAJOR 0
#define PHIDIAS_VERSION_MINOR 1
#define PHIDIAS_VERSION_PATCH 0
#define PHIDIAS_VERSION "0.1.0"
