// All headers for programs that train and run models. Authors of operators and patterns include op.hpp, opmanager.hpp
// and patterns/patterns.hpp.
#pragma once
#include <popart/adam.hpp>
#include <popart/adaptive.hpp>
#include <popart/builder.hpp>
#include <popart/dataflow.hpp>
#include <popart/devicemanager.hpp>
#include <popart/error.hpp>
#include <popart/graphtransformer.hpp>
#include <popart/inputshapeinfo.hpp>
#include <popart/logging.hpp>
#include <popart/ndarraywrapper.hpp>
#include <popart/optim.hpp>
#include <popart/optimizer.hpp>
#include <popart/session.hpp>
#include <popart/sessionoptions.hpp>
#include <popart/sgd.hpp>
#include <popart/simple_session.hpp>
#include <popart/stepio.hpp>
#include <popart/trainabletensor.hpp>
#include <popart/version.hpp>
