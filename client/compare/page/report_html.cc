// Composes the page: sentences, verdicts, charts, flips, texts, method.
#include "client/compare/page/report_html.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "client/compare/page/html_text.h"
#include "client/compare/page/sections.h"
#include "client/compare/page/style.h"
#include "client/compare/page/table.h"
#include "client/compare/wording.h"

namespace longstream::client {
namespace {

// Of a free-running comparison the page shows the texts of the first prompts.
constexpr size_t kMostTexts = 10;
constexpr size_t kMostTextBytes = 1000;

std::string Paragraph(const std::string& text, const char* css_class) {
  return "<p class=\"" + std::string(css_class) + "\">" + Escaped(text) + "</p>\n";
}

std::string Title(const Comparison& comparison) {
  std::string title;
  for (const ComparedArm& arm : comparison.arms) {
    title += (title.empty() ? "" : " · ") + arm.name;
  }
  return title;
}

// "±0.0100 nats", "1.05×"
std::string MinimumEffectText(const MetricInfo& info, double effect) {
  const bool both_sides = !info.distance && info.unit != MetricUnit::kRatio;
  return (both_sides ? "±" : "") + Trimmed(ValueText(info.unit, effect));
}

std::string ArmMeanText(const MetricInfo& info, double mean) {
  if (std::isnan(mean)) return "–";
  if (info.unit == MetricUnit::kPercent) return ValueText(info.unit, mean);
  return Significant(mean, 3);
}

// Green and red are for better and worse; the text of the verdict says these words too.
std::string VerdictClass(const MetricResult& result) {
  const Verdict verdict = result.decision.verdict;
  const bool is_open = verdict == Verdict::kTooFew || verdict == Verdict::kInterim;
  return "verdict " + std::string(is_open ? VerdictKey(verdict) : OutcomeKey(OutcomeOf(result)));
}

std::string VerdictTableOf(const Comparison& comparison, const PairAnalysis& pair) {
  const std::string& baseline = comparison.arms[0].name;
  const std::string& other = comparison.arms[pair.other].name;
  PageTable table(other + " against " + baseline,
                  {"metric", "verdict", "difference", "90 % interval", "δ", "effect size",
                   "p (Holm)", baseline, other, "prompts"},
                  2);
  for (const MetricResult& result : pair.metrics) {
    const MetricInfo& info = Info(result.metric);
    // Times and bytes are kept as logarithms of ratios; the means of the arms are not.
    const auto mean = [&](double value) {
      if (result.metric == Metric::kBytes) return BytesText(value);
      if (info.unit == MetricUnit::kRatio) return SecondsText(value);
      return ArmMeanText(info, value);
    };
    table.Add({{std::string(info.title)},
               {DecisionText(result), "", VerdictClass(result)},
               {info.distance ? ValueText(info.unit, result.mean)
                              : DifferenceText(info.unit, result.mean),
                IntervalText(info.unit, result.interval)},
               {IntervalText(info.unit, result.equality)},
               {MinimumEffectText(info, result.minimum_effect)},
               {std::isinf(result.effect) ? "no spread" : Significant(result.effect, 2)},
               {result.p < 0.001 ? "< 0.001" : Trimmed(Significant(result.p, 2))},
               {mean(result.baseline)},
               {mean(result.other)},
               {std::to_string(result.prompts)}});
  }
  return table.Html();
}

std::string VerdictSection(const Comparison& comparison, const Analysis& analysis) {
  std::string html = "<h2>Verdicts</h2>\n";
  for (const PairAnalysis& pair : analysis.pairs) {
    if (!pair.metrics.empty()) html += VerdictTableOf(comparison, pair);
  }
  return html +
         "<p class=\"note\">Differences are other − baseline; times and bytes are ratios. The "
         "interval below a difference holds for all metrics of the pair at once (Holm). "
         "<b>different</b>: it excludes 0 (a ratio: 1). The other arm is <b>better</b> with more "
         "probability or accuracy, and with fewer bits, less time or fewer bytes. <b>equal within "
         "δ</b>: the 90 % interval lies within δ. KL and disagreement are never negative, so they "
         "are only <b>within δ</b> or <b>over δ</b>, neither of which is better. The effect size "
         "is the mean divided by the standard deviation over "
         "prompts.</p>\n";
}

std::string FlipHtml(const Comparison& comparison, const PairAnalysis& pair, const Flip& flip) {
  const auto choice = [](const std::string& text) {
    return text.empty() ? std::string("(unknown)") : Escaped(text);
  };
  return "<div class=\"flip\"><p class=\"note\">prompt " +
         Escaped(comparison.prompts[flip.prompt].id) + ", token " +
         std::to_string(flip.position + 1) + ", KL " + ValueText(MetricUnit::kNats, flip.kl) +
         "</p>\n<p class=\"text\"><bdi>" + Escaped(flip.before) + "</bdi>▸<bdi>" +
         Escaped(flip.after) + "</bdi></p>\n<p>" + Escaped(comparison.arms[0].name) +
         " prefers <mark class=\"text\"><bdi>" + choice(flip.baseline_choice) + "</bdi></mark>, " +
         Escaped(comparison.arms[pair.other].name) + " prefers <mark class=\"text other\"><bdi>" +
         choice(flip.other_choice) + "</bdi></mark></p></div>\n";
}

std::string FlipSection(const Comparison& comparison, const Analysis& analysis) {
  std::string html;
  for (const PairAnalysis& pair : analysis.pairs) {
    if (pair.positions.empty()) continue;
    const std::string& other = comparison.arms[pair.other].name;
    const size_t ran = comparison.prompts.size() - pair.lost;
    std::string text = other + " and " + comparison.arms[0].name + " prefer different tokens in " +
                       std::to_string(pair.flipped) + " of " + std::to_string(ran) + " prompts";
    if (pair.flipped > 0) {
      text += "; the median of the first such token is " +
              std::to_string(std::llround(pair.median_flip) + 1);
    }
    html += Paragraph(text + ".", "");
    if (pair.flips.empty()) continue;
    html += "<details><summary>The " + std::to_string(pair.flips.size()) +
            " earliest of them for " + Escaped(other) + "</summary>\n";
    for (const Flip& flip : pair.flips) html += FlipHtml(comparison, pair, flip);
    html += "</details>\n";
  }
  if (html.empty()) return "";
  return "<h2>First flips</h2>\n<p class=\"note\">▸ stands before the token at which the most "
         "probable tokens differ. ↵ is a line feed.</p>\n" +
         html;
}

std::string TextSection(const Comparison& comparison) {
  if (comparison.teacher_forced) return "";
  std::string html;
  for (size_t p = 0; p < std::min(comparison.prompts.size(), kMostTexts); ++p) {
    const PromptRun& prompt = comparison.prompts[p];
    html += "<details><summary>prompt " + Escaped(prompt.id) + "</summary>\n<dl>";
    for (size_t arm = 0; arm < comparison.arms.size(); ++arm) {
      const ArmRun& run = prompt.arms[arm];
      html += "<dt>" + Escaped(comparison.arms[arm].name) + "</dt><dd class=\"text\"><bdi>";
      html += run.error.empty() ? Escaped(std::string_view(run.text).substr(0, kMostTextBytes))
                                : "lost: " + Escaped(run.error);
      html += run.error.empty() && run.text.size() > kMostTextBytes ? "…" : "";
      html += "</bdi></dd>\n";
    }
    html += "</dl></details>\n";
  }
  return html.empty() ? "" : "<h2>Texts</h2>\n" + html;
}

std::string ArmTable(const Comparison& comparison, const Analysis& analysis) {
  PageTable table("Arms", {"arm", "model", "version", "tokenizer", "prompts", "lost"}, 4);
  for (size_t arm = 0; arm < comparison.arms.size(); ++arm) {
    const ComparedArm& of = comparison.arms[arm];
    table.Add({{of.name + (arm == 0 ? " (baseline)" : "")},
               {of.model},
               {of.version},
               {of.tokenizer},
               {std::to_string(analysis.arms[arm].prompts)},
               {std::to_string(analysis.arms[arm].lost)}});
  }
  return table.Html();
}

std::string MethodSection(const Comparison& comparison, const Analysis& analysis) {
  const ComparisonPlan& plan = comparison.plan;
  std::string html = "<h2>How it was measured</h2>\n" + ArmTable(comparison, analysis) + "<dl>\n";
  const auto add = [&](const char* term, const std::string& text) {
    if (text.empty()) return;
    html += "<dt>" + std::string(term) + "</dt><dd>" + Escaped(text) + "</dd>\n";
  };
  add("Tokens", comparison.teacher_forced
                    ? "teacher-forced: every arm read the same tokens" +
                          (comparison.forced_by.empty() ? "" : ", from " + comparison.forced_by)
                    : "free-running: every arm read its own tokens");
  add("Latencies", comparison.latency);
  add("Prompts", std::to_string(comparison.prompts.size()) + " ran, " +
                     std::to_string(plan.prompts) + " were planned" +
                     (plan.extended ? "; some were added after a verdict was seen" : ""));
  add("Intervals", "studentised bootstrap over prompts, " + std::to_string(plan.resamples) +
                       " resamples, seed " + std::to_string(plan.seed));
  add("Level", "the chance that any metric of a pair is wrongly called different or over δ is " +
                   ValueText(MetricUnit::kPercent, plan.alpha) +
                   " (Holm's correction); that a metric is wrongly called equal or within δ, 5 %");
  std::string effects;
  for (const Metric metric : kAllMetrics) {
    const MetricInfo& info = Info(metric);
    effects += (effects.empty() ? "" : "; ") + std::string(info.title) + " " +
               MinimumEffectText(info, plan.minimum_effects[static_cast<size_t>(metric)]);
  }
  add("Minimum effects δ", effects);
  add("Server", comparison.server);
  add("Measured", comparison.measured_at);
  return html + "</dl>\n";
}

}  // namespace

std::string ComparisonPage(const Comparison& comparison, const Analysis& analysis) {
  const std::string title = Escaped(Title(comparison));
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      title + "</title>\n<style>" + std::string(kPageStyle) +
      "</style>\n</head>\n<body>\n<main>\n" + "<h1>" + title + "</h1>\n";
  for (const PairAnalysis& pair : analysis.pairs) {
    const bool is_open =
        pair.verdict == PairVerdict::kTooFew || pair.verdict == PairVerdict::kInterim;
    html += "<p class=\"lead " +
            std::string(is_open ? PairVerdictKey(pair.verdict)
                                : OutcomeKey(OutcomeOf(comparison, pair))) +
            "\">" + Escaped(PairSentence(comparison, pair)) + "</p>\n";
  }
  html += VerdictSection(comparison, analysis);
  html += PositionSection(comparison, analysis);
  html += LengthSection(comparison, analysis);
  html += FlipSection(comparison, analysis);
  html += TextSection(comparison);
  html += LatencySection(comparison, analysis);
  html += MemorySection(comparison, analysis);
  html += MethodSection(comparison, analysis);
  return html + "</main>\n</body>\n</html>\n";
}

}  // namespace longstream::client
