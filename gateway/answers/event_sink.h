// Where the events of a streamed answer go.
#ifndef LONGSTREAM_GATEWAY_ANSWERS_EVENT_SINK_H_
#define LONGSTREAM_GATEWAY_ANSWERS_EVENT_SINK_H_

#include <string>

namespace longstream::gateway {

class EventSink {
 public:
  virtual ~EventSink() = default;

  // The turn has begun: the answer is a stream, and no error of HTTP any more. May be called again.
  virtual void Begin() = 0;
  // `events`: zero or more whole events. False: nobody wants them.
  virtual bool Send(const std::string& events) = 0;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_ANSWERS_EVENT_SINK_H_
