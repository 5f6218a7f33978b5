// The two macros that pass an Error on, and the check for our own mistakes.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "phidias/status.h"

#define PHIDIAS_CONCAT_(a, b) a##b
#define PHIDIAS_CONCAT(a, b) PHIDIAS_CONCAT_(a, b)

// PHIDIAS_TRY(auto file, open(path)): declares `file`, or returns the error from the enclosing
// function.
#define PHIDIAS_TRY(declaration, expression)                             \
  auto PHIDIAS_CONCAT(phidias_result_, __LINE__) = (expression);         \
  if (!PHIDIAS_CONCAT(phidias_result_, __LINE__).ok())                   \
    return std::move(PHIDIAS_CONCAT(phidias_result_, __LINE__)).error(); \
  declaration = std::move(PHIDIAS_CONCAT(phidias_result_, __LINE__)).value()

// PHIDIAS_CHECK_OK(write(...)): returns the error of a Status or Result, if there is one.
#define PHIDIAS_CHECK_OK(expression)                                    \
  do {                                                                  \
    auto phidias_status = (expression);                                 \
    if (!phidias_status.ok()) return std::move(phidias_status).error(); \
  } while (false)

// For what only we can get wrong; never for anything read from a file, a socket or a user.
#define PHIDIAS_ASSERT(condition)                                                          \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      std::fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                        \
    }                                                                                      \
  } while (false)
