// A fidelity run: the model, the text, the reference, and the settings one after another.
//
// Between the command line (fidelity_command.cc) and the measurement (fidelity.h). Prints a line to
// stderr where it takes long.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "eval/fidelity/fidelity.h"
#include "eval/fidelity/floor.h"
#include "eval/fidelity/npy.h"
#include "eval/progress.h"
#include "eval/run/eval_command.h"

namespace kvasir::eval {

/// What the command line of `kvasir eval fidelity` asks for beside the common flags.
struct FidelityFlags {
  std::string text = "bible";
  int32_t tokens = 2048;
  int32_t prefix = 0;  // 0: half of the tokens
  std::string against = "full";
  std::string reference;
  int32_t top_k = 256;
  std::string dump;
};

// One command line at work: the model, the plan, and what is done so far.
class FidelityJob {
 public:
  FidelityJob(EvalCommand& command, const FidelityFlags& flags)
      : command_(command), flags_(flags) {}

  Result<void> prepare();
  Result<void> run(RunFile& file);
  Json identity() const;
  Json result(const RunFile& file, double seconds) const;
  const Floor& floor() const { return floor_; }
  Json sets(const RunFile& file) const;

 private:
  // The reference's session: Kvasir's with every token kept, or stock llama.cpp's.
  struct ReferenceSession {
    std::unique_ptr<KvSession> kv;
    std::unique_ptr<Session> stock;
    Session& session() { return kv != nullptr ? kv->session() : *stock; }
    int64_t bytes() const { return kv != nullptr ? kv->counts().bytes : 0; }
  };
  Result<ReferenceSession> open_reference();
  Result<void> find_reference(RunFile& file, Progress& progress);
  Result<void> note_reference(const WholeRows& rows, const std::vector<double>& step_ms,
                              RunFile& file) const;
  Result<void> run_one(const Setting& setting, RunFile& file, Progress& progress);
  Result<NpyWriter> dump_of(const std::string& name) const;
  Result<void> check_dump_names() const;
  std::string reference_identity() const;
  Result<KvSession> open(const CacheOptions& options);

  EvalCommand& command_;
  const FidelityFlags& flags_;
  std::shared_ptr<llama_model> model_;
  FidelityPlan plan_;
  std::string digest_;
  Floor floor_;
  std::unique_ptr<ReferenceRows> reference_;
  int64_t bytes_full_ = 0;
};

}  // namespace kvasir::eval
