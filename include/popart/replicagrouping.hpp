// PopART's header name for ReplicaGrouping.
#pragma once
#include <popart/commgroup.hpp>
