// PutNotes and FindNotes: values that clients keep with their sessions.
#ifndef LONGSTREAM_SERVICE_SERVER_NOTES_NOTE_CALLS_H_
#define LONGSTREAM_SERVICE_SERVER_NOTES_NOTE_CALLS_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "longstream/v1/longstream.pb.h"
#include "service/server/transport/call_count.h"
#include "service/server/transport/raw_request.h"
#include "service/serving/session_manager.h"

namespace longstream {

// The pointers outlive the calls. `memory` counts the answers.
struct NoteCallTools {
  SessionManager* sessions = nullptr;
  RequestMemory* memory = nullptr;
  CallCount* calls = nullptr;
};

// Each function makes a reactor that deletes itself when its call is done. A call whose caller
// leaves ends at once; its notes are written nevertheless.
grpc::ServerUnaryReactor* NewPutNotesCall(const NoteCallTools& tools, const std::string& tenant,
                                          Decoded<v1::PutNotesRequest> request,
                                          v1::PutNotesResponse* response);
grpc::ServerUnaryReactor* NewFindNotesCall(const NoteCallTools& tools, const std::string& tenant,
                                           const v1::FindNotesRequest& request,
                                           v1::FindNotesResponse* response);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_NOTES_NOTE_CALLS_H_
