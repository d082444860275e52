// Plan object: a plan as Python holds it, shared with the executors that carry it out.
#pragma once

#include <memory>

#include "foregather/plan.hpp"

namespace foregather::python {

struct PlanObject {
  std::shared_ptr<const Plan> plan;
};

}  // namespace foregather::python
