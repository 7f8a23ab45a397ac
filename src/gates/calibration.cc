// SPDX-License-Identifier: Apache-2.0
#include "gates/calibration.h"

#include <algorithm>

namespace firstlight::gates {

const char* calibration_text() {
  return R"TEXT(The ferry left the island at half past six, when the fog had begun to lift and the lamps along the quay were
still burning. Marta stood at the rail with her collar up and counted the boats that lay outside the harbour: eleven,
two more than yesterday. Nobody spoke. The engine shook the deck, gulls followed the wake, and far behind the church
tower a thin line of smoke rose straight into the morning.

A heat pump moves warmth from a cold place to a warmer one. It does so by letting a fluid evaporate where it is cold and
condense where it is warm; the work of the compressor pays for the difference. The smaller the difference between the
two temperatures, the less electricity is needed for each unit of heat, which is why wide radiators and good insulation
matter more than the size of the machine.

"Did you read the report?" asked Tom.
"Only the first two pages," she answered. "The figures on page three can't be right: if 48 people paid 12 euros each,
that makes 576, not 567."
"You are right. I'll write to them today."

def moving_average(values, width):
    """Means of all windows of `width` neighbours."""
    if width < 1 or width > len(values):
        raise ValueError("no such window")
    total = sum(values[:width])
    means = [total / width]
    for i in range(width, len(values)):
        total += values[i] - values[i - width]
        means.append(total / width)
    return means

Question: A train covers 180 kilometres in two and a quarter hours. What is its average speed?
Answer: 180 divided by 2.25 is 80, so the train travels at 80 kilometres per hour on average.

| city    | rain (mm) | days |
|---------|-----------|------|
| Bergen  | 2495      | 231  |
| Seville | 539       | 60   |
| Quito   | 1014      | 174  |

Am Abend gingen wir noch einmal zum Fluss hinunter. Das Wasser stand hoch, und die Kinder warfen Steine hinein, bis es
zu dunkel war, um die Ringe zu sehen.

La bibliothèque ouvre à neuf heures, sauf le lundi; on peut y emprunter cinq livres pour trois semaines.

春天来了，河边的柳树发了新芽，孩子们在草地上放风筝。老师说，明天我们去博物馆看展览。

SELECT name, COUNT(*) AS orders FROM customers JOIN sales ON customers.id = sales.customer
WHERE sales.year = 2019 GROUP BY name HAVING COUNT(*) > 3 ORDER BY orders DESC;

The committee met again in March. It agreed on three points: the old bridge will be kept for walkers and cyclists, the
new one will carry four lanes, and neither will be closed before the other is open. What remained unsettled was the
price. Estimates ran from nineteen to twenty-six million, and the council, which had promised not to raise taxes, asked
for a second opinion before the end of the year.
)TEXT";
}

Result<Calibration> calibration_tokens(const adapt::TextAssets& assets, const std::optional<std::string>& text,
                                       const std::string& name, int64_t vocab_size, int64_t count) {
  Calibration calibration{.tokens = {}, .origin = text ? name : "the text in the program"};
  auto tokenizer = assets.require_tokenizer();
  if (!tokenizer.ok() && !text) {
    // Steps of a third of the vocabulary and a bit, so that neighbours are far from each other.
    const int64_t step = std::max<int64_t>(1, vocab_size / 3 + 1);
    for (int64_t i = 0; i < count; ++i) calibration.tokens.push_back(static_cast<int32_t>((7 + i * step) % vocab_size));
    calibration.origin = "ids from all over the vocabulary";
    return calibration;
  }
  FL_TRY(tokenizer);
  if (tokenizer->adds_bos() && tokenizer->bos_id()) calibration.tokens.push_back(*tokenizer->bos_id());
  const auto tokens =
      FL_TRY(tokenizer->encode(text.value_or(calibration_text()), {.add_special = false, .parse_special = false}));
  calibration.tokens.insert(calibration.tokens.end(), tokens.begin(), tokens.end());
  if (static_cast<int64_t>(calibration.tokens.size()) > count) calibration.tokens.resize(static_cast<size_t>(count));
  if (calibration.tokens.size() >= 2) return calibration;
  return invalid_argument(calibration.origin + ": " + std::to_string(calibration.tokens.size()) +
                          " tokens, at least 2 wanted");
}

}  // namespace firstlight::gates
