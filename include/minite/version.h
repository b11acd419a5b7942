#pragma once
/// The one place that holds the version; CMake reads it from here.
#define MINITE_VERSION_STRING "0.1.0"
