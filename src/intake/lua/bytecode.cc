// SPDX-License-Identifier: Apache-2.0
#include "intake/lua/bytecode.h"

#include <cstdint>
#include <cstring>

#include "base/status.h"

namespace firstlight::intake {
namespace {

// The opcodes of Lua 5.4 (lopcodes.h), those that matter by name.
enum Opcode : uint8_t {
  kMove = 0,
  kLoadNil = 8,
  kGetUpval = 9,
  kSetUpval = 10,
  kGetTabUp = 11,
  kGetTable = 12,
  kGetField = 14,
  kSetTabUp = 15,
  kSetTable = 16,
  kSetField = 18,
  kNewTable = 19,
  kSelf = 20,
  kAddI = 21,
  kAddK = 22,
  kShl = 44,
  kShr = 45,
  kMmBin = 46,
  kMmBinK = 48,
  kUnm = 49,
  kBNot = 50,
  kNot = 51,
  kLen = 52,
  kConcat = 53,
  kClose = 54,
  kTbc = 55,
  kJmp = 56,
  kEq = 57,
  kLt = 58,
  kLe = 59,
  kEqK = 60,
  kGeI = 65,
  kTest = 66,
  kTestSet = 67,
  kCall = 68,
  kTailCall = 69,
  kReturn = 70,
  kReturn1 = 72,
  kForLoop = 73,
  kForPrep = 74,
  kTForPrep = 75,
  kTForCall = 76,
  kTForLoop = 77,
  kSetList = 78,
  kClosure = 79,
  kVararg = 80,
  kVarargPrep = 81,
  kExtraArg = 82,
  kNumOpcodes = 83
};

struct Instruction {
  uint8_t op;
  uint8_t a;
  uint8_t b;
  uint8_t c;
  bool k;      // c is a constant, not a register
  int32_t bx;  // unsigned 17 bits
  int32_t sj;  // of jumps
};

struct Function {
  int line = 0;
  int num_params = 0;
  int num_registers = 0;
  std::vector<uint32_t> code;
  std::vector<int8_t> line_steps;
  std::vector<std::pair<int, int>> line_marks;  // instruction, line

  Instruction at(size_t pc) const {
    const uint32_t word = code[pc];
    return {static_cast<uint8_t>(word & 0x7f),
            static_cast<uint8_t>(word >> 7),
            static_cast<uint8_t>(word >> 16),
            static_cast<uint8_t>(word >> 24),
            (word & 0x8000) != 0,
            static_cast<int32_t>(word >> 15),
            static_cast<int32_t>(word >> 7) - 0xffffff};
  }

  int line_of(size_t pc) const {
    int at = line;
    for (size_t i = 0; i <= pc && i < line_steps.size(); ++i) {
      if (line_steps[i] != -128) {
        at += line_steps[i];
        continue;
      }
      for (const auto& [mark, marked_line] : line_marks) {
        if (mark == static_cast<int>(i)) at = marked_line;
      }
    }
    return at;
  }
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }

  uint8_t byte() {
    if (at_ >= bytes_.size()) {
      ok_ = false;
      return 0;
    }
    return static_cast<uint8_t>(bytes_[at_++]);
  }
  size_t size() {  // seven bits a byte, most significant first, the last one marked
    size_t value = 0;
    for (int i = 0; i < 10 && ok_; ++i) {
      const uint8_t next = byte();
      value = (value << 7) | (next & 0x7f);
      if ((next & 0x80) != 0) return value;
    }
    ok_ = false;
    return 0;
  }
  void skip(size_t count) {
    if (count > bytes_.size() - at_) {
      ok_ = false;
      return;
    }
    at_ += count;
  }
  void skip_text() {
    const size_t length = size();
    if (length > 0) skip(length - 1);
  }
  template <typename T>
  T fixed() {
    T value{};
    if (sizeof(T) > bytes_.size() - at_) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

void skip_constants(Reader& reader) {
  for (size_t n = reader.size(); n > 0 && reader.ok(); --n) {
    switch (reader.byte()) {
      case 0x03:
      case 0x13:
        reader.skip(8);
        break;  // integer, float
      case 0x04:
      case 0x14:
        reader.skip_text();
        break;
      default:
        break;  // nil, false, true
    }
  }
}

Function read_function(Reader& reader, int depth) {
  Function function;
  reader.skip_text();
  function.line = static_cast<int>(reader.size());
  reader.size();
  function.num_params = reader.byte();
  reader.byte();
  function.num_registers = reader.byte();
  for (size_t n = reader.size(); n > 0 && reader.ok(); --n) function.code.push_back(reader.fixed<uint32_t>());
  skip_constants(reader);
  for (size_t n = reader.size(); n > 0 && reader.ok(); --n) reader.skip(3);  // upvalues
  for (size_t n = reader.size(); n > 0 && reader.ok() && depth < 100; --n) read_function(reader, depth + 1);
  for (size_t n = reader.size(); n > 0 && reader.ok(); --n)
    function.line_steps.push_back(static_cast<int8_t>(reader.byte()));
  for (size_t n = reader.size(); n > 0 && reader.ok(); --n) {
    const int pc = static_cast<int>(reader.size());
    function.line_marks.emplace_back(pc, static_cast<int>(reader.size()));
  }
  for (size_t n = reader.size(); n > 0 && reader.ok(); --n) {  // local variables
    reader.skip_text();
    reader.size();
    reader.size();
  }
  for (size_t n = reader.size(); n > 0 && reader.ok(); --n) reader.skip_text();  // upvalue names
  return function;
}

using Registers = std::vector<bool>;  // which hold a traced value

class Flow {
 public:
  Flow(const Function& function, const TracedInputs& inputs) : function_(function), inputs_(inputs) {}

  TracedBranch run() {
    entry_.assign(function_.code.size(), Registers());
    Registers first(256 + 4, false);
    for (size_t i = 0; i < inputs_.parameters.size(); ++i) first[i] = inputs_.parameters[i];
    reach(0, first);
    while (!work_.empty() && found_.line == 0) {
      const size_t pc = work_.back();
      work_.pop_back();
      step(pc);
    }
    return found_;
  }

 private:
  void reach(int64_t pc, const Registers& registers) {
    if (pc < 0 || pc >= static_cast<int64_t>(entry_.size())) return;
    Registers& at = entry_[static_cast<size_t>(pc)];
    bool changed = at.empty();
    if (at.empty()) at.assign(registers.size(), false);
    for (size_t i = 0; i < registers.size(); ++i) {
      if (registers[i] && !at[i]) {
        at[i] = true;
        changed = true;
      }
    }
    if (changed) work_.push_back(static_cast<size_t>(pc));
  }

  static bool any(const Registers& r, int first, int last) {
    for (int i = first; i <= last && i < static_cast<int>(r.size()); ++i) {
      if (r[static_cast<size_t>(i)]) return true;
    }
    return false;
  }

  static void set(Registers& r, int first, int last, bool value) {
    for (int i = first; i <= last && i < static_cast<int>(r.size()); ++i) r[static_cast<size_t>(i)] = value;
  }

  void report(size_t pc, const char* construct) { found_ = {function_.line_of(pc), construct}; }

  // Branching instructions; true when `pc` was one.
  bool branch(size_t pc, const Instruction& i, Registers& r) {
    const auto next = static_cast<int64_t>(pc) + 1;
    if (i.op >= kEq && i.op <= kGeI) {
      const bool traced = r[i.a] || (i.op <= kLe && r[i.b]);
      if (traced) report(pc, "a comparison");
      reach(next, r);
      reach(next + 1, r);
      return true;
    }
    if (i.op == kTest || i.op == kTestSet) {
      if (r[i.op == kTest ? i.a : i.b]) report(pc, "'if', 'and' or 'or'");
      reach(next, r);
      if (i.op == kTestSet) r[i.a] = false;
      reach(next + 1, r);
      return true;
    }
    switch (i.op) {
      case kJmp:
        reach(next + i.sj, r);
        return true;
      case kForLoop:
        reach(next - i.bx, r);
        break;
      case kForPrep:
        reach(next + i.bx + 1, r);
        break;
      case kTForPrep:
        reach(next + i.bx, r);
        return true;
      case kTForLoop:
        reach(next - i.bx, r);
        break;
      case 6:
        reach(next + 1, r);
        return true;  // LFALSESKIP
      case kReturn:
      case 71:  // RETURN0
      case kReturn1:
      case kTailCall:
        return true;
      default:
        return false;
    }
    reach(next, r);
    return true;
  }

  // What an instruction without a branch leaves in its registers.
  void transfer(const Instruction& i, Registers& r) {
    switch (i.op) {
      case kMove:
      case kUnm:
      case kBNot:
      case kLen:
        r[i.a] = r[i.b];
        return;
      case kLoadNil:
        set(r, i.a, i.a + i.b, false);
        return;
      case kGetUpval:
        r[i.a] = i.b < inputs_.upvalues.size() && inputs_.upvalues[i.b];
        return;
      case kGetTabUp:
        r[i.a] = false;
        return;
      case kGetTable:
        r[i.a] = r[i.b] || r[i.c];
        return;
      case 13:  // GETI
      case kGetField:
        r[i.a] = r[i.b];
        return;
      case kSelf:
        r[static_cast<size_t>(i.a) + 1] = r[i.b];
        r[i.a] = false;
        return;
      case kSetTable:
      case 17:  // SETI
      case kSetField:
        r[i.a] = r[i.a] || (!i.k && r[i.c]);
        return;
      case kConcat:
        r[i.a] = any(r, i.a, i.a + i.b - 1);
        return;
      case kCall: {
        const bool traced = any(r, i.a, i.b == 0 ? 255 : i.a + i.b - 1);
        set(r, i.a, i.c == 0 ? 255 : i.a + i.c - 2, traced);
        return;
      }
      case kTForCall:
        set(r, i.a + 4, i.a + 3 + i.c, any(r, i.a, i.a + 2));
        return;
      case kSetList:
        r[i.a] = any(r, i.a, i.b == 0 ? 255 : i.a + i.b);
        return;
      case kVararg:
        set(r, i.a, i.c == 0 ? 255 : i.a + i.c - 2, true);
        return;
      default:
        break;
    }
    if (i.op >= kAddI && i.op <= kShr) {
      const bool two_registers = i.op >= 34;
      r[i.a] = r[i.b] || (two_registers && r[i.c]);
    } else if (i.op >= kMmBin && i.op <= kMmBinK) {
      // The metamethod of the instruction before it, whose result register that one has set.
    } else if (i.op < kGetUpval || i.op == kNewTable || i.op == kClosure) {
      r[i.a] = false;
    }
  }

  void step(size_t pc) {
    const Instruction i = function_.at(pc);
    Registers r = entry_[pc];
    if (i.op == kNot) {
      if (r[i.b]) return report(pc, "'not'");
      r[i.a] = false;
      return reach(static_cast<int64_t>(pc) + 1, r);
    }
    if ((i.op == kSetUpval && r[i.a]) || (i.op == kSetTabUp && !i.k && r[i.c])) {
      return report(pc, "an assignment to an outer variable");
    }
    if (branch(pc, i, r)) return;
    transfer(i, r);
    reach(static_cast<int64_t>(pc) + 1, r);
  }

  const Function& function_;
  const TracedInputs& inputs_;
  std::vector<Registers> entry_;
  std::vector<size_t> work_;
  TracedBranch found_;
};

}  // namespace

Result<TracedBranch> find_traced_branch(std::string_view dump, const TracedInputs& inputs) {
  // Signature, version 5.4, format 0, the check bytes, and the sizes of instruction, integer and number.
  constexpr std::string_view kHeader("\x1bLua\x54\x00\x19\x93\r\n\x1a\n\x04\x08\x08", 15);
  if (!dump.starts_with(kHeader)) return unsupported("the Lua library does not write the bytecode of Lua 5.4");
  Reader reader(dump);
  reader.skip(kHeader.size() + 16 + 1);  // an integer, a number, the number of upvalues
  const Function function = read_function(reader, 0);
  bool known = reader.ok() && inputs.parameters.size() <= 255;
  for (const uint32_t word : function.code) known = known && (word & 0x7f) < kNumOpcodes;
  if (!known) return unsupported("the bytecode of a traced function can not be read");
  return Flow(function, inputs).run();
}

}  // namespace firstlight::intake
