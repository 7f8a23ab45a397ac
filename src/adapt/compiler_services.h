// SPDX-License-Identifier: Apache-2.0
// What the compiler asks for by interface, since it links no kernels: the work space of this build's kernels, and the
// values of nodes whose operands are constants, computed by the reference bodies.
#pragma once

#include "compiler/compile.h"

namespace firstlight::adapt {

const compiler::KernelFacts& linked_kernels();
const compiler::ConstantEvaluator& reference_evaluator();

}  // namespace firstlight::adapt
