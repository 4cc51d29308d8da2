#pragma once
// Data sets, training and prediction. With CMake, link moxie::learn.
#include "data/presets.h"
#include "learn/calibration.h"
#include "learn/chosen_rows.h"
#include "learn/class_quality.h"
#include "learn/cross_validation.h"
#include "learn/jacobians.h"
#include "learn/model_text.h"
#include "learn/run_folder.h"
#include "learn/training_run.h"
#include "learn/uncertainty_warnings.h"
#include "moxie/moxie.h"
#include "runtime/trainer.h"
