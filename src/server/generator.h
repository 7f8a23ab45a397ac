// SPDX-License-Identifier: Apache-2.0
// What the server needs of an engine: requests in, token events out. An interface, so that everything from HTTP down to
// this line can be tested without a model; engine_generator.h is the form that computes.
#pragma once

#include <cstdint>
#include <functional>

#include "request/request.h"

namespace firstlight::server {

using Ticket = uint64_t;
using EventSink = std::function<void(const request::TokenEvent&)>;

// All members may be called from any thread. The sink is called on a thread of the generator's, until an event with a
// finish reason; it does not block.
class Generator {
 public:
  virtual ~Generator() = default;
  // Errors: kInvalidArgument for what is wrong with the request, kUnavailable when it may work later: too many wait.
  virtual Result<Ticket> submit(request::Request request, EventSink sink) = 0;
  // Ends the request within about one step; one that has ended is left alone.
  virtual void cancel(Ticket ticket) = 0;
  virtual int64_t vocab_size() const = 0;
  virtual int64_t num_waiting() const = 0;  // requests that nothing is computed for yet
};

}  // namespace firstlight::server
