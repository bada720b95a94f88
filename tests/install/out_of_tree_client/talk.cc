// Streams an answer, asks another question in a fork, and takes the first turn back.
// Usage: talk ADDRESS MODEL
#include <cstdint>
#include <iostream>
#include <string_view>

#include "longstream/client/session.h"

namespace client = longstream::client;
namespace v1 = longstream::v1;

namespace {

void Print(std::string_view piece) { std::cout << piece << std::flush; }

void Talk(const client::Connection& connection, const char* model) {
  client::Session session(connection, model);
  v1::GenerateRequest options;
  options.set_max_tokens(20);
  options.mutable_sampling()->set_seed(7);  // without a seed each run draws another text

  session.Append("Once upon a time");
  const uint64_t before = session.Position();
  const client::Generation answer = session.Generate(" there was", options, Print);
  std::cout << "\nThe turn has taken the session from token " << before << " to token "
            << answer.finish.position() << ".\n";

  // The fork has read the beginning, and not the turn. It is closed at the end of the block.
  {
    client::Session fork = session.ForkAtPosition(before);
    fork.Generate(" nobody knew", options, Print);
    std::cout << "\nThe fork is at token " << fork.Position() << ".\n";
  }

  session.RewindToPosition(before);
  const client::Generation again = session.Generate(" there was", options);
  std::cout << "After a rewind the answer is "
            << (again.token_ids == answer.token_ids ? "the same" : "another one") << ".\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: talk ADDRESS MODEL\n";
    return 2;
  }
  try {
    Talk(client::Connection(argv[1]), argv[2]);
  } catch (const client::CallError& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
