#pragma once
// Formulas: to write and read them, to derive others from them, and to run them. With CMake, link moxie::runtime, and
// moxie::ops for formulas of the catalogue; <moxie/learn.h> has data sets and training.
//
// What throws throws a class of compiler/support/error.h, all derived from moxie::Error. A Program, an Expr and what is
// derived from them are values: threads may read one at the same time.
#include "compiler/builder/builder.h"
#include "compiler/diff/differentiate.h"
#include "compiler/diff/jacobian.h"
#include "compiler/diff/tangents.h"
#include "compiler/program/batched.h"
#include "compiler/program/program.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "compiler/text/parsed_text.h"
#include "ops/catalogue.h"
#include "ops/formula_file.h"
#include "runtime/compiled_function.h"
#include "runtime/log.h"
#include "runtime/safetensors.h"
#include "runtime/session.h"
#include "runtime/tensor_view.h"
