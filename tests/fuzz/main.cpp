// popart_fuzz: damaged models, damaged IR text and random graphs. `popart_fuzz damaged --seed 3 --first 17 --runs 1`
// repeats one input.
#include <CLI/CLI.hpp>

#include <cstdlib>
#include <iostream>

#include "fuzz.hpp"
#include "guard.hpp"

int main(int argc, char **argv) {
  CLI::App app{"Fuzz tests: damaged models, damaged IR text, random graphs. Without a subcommand: all."};
  popart::fuzz::Settings settings;
  app.add_option("--runs", settings.runs, "Number of damaged models")
      ->envname("POPART_FUZZ_RUNS")
      ->capture_default_str();
  app.add_option("--graphs", settings.graphs, "Number of random graphs")
      ->envname("POPART_FUZZ_GRAPHS")
      ->capture_default_str();
  app.add_option("--texts", settings.texts, "Number of damaged IR texts")
      ->envname("POPART_FUZZ_TEXTS")
      ->capture_default_str();
  app.add_option("--seed", settings.seed, "Seed")->envname("POPART_FUZZ_SEED")->capture_default_str();
  app.add_option("--first", settings.first, "Number of the first input")->capture_default_str();
  const CLI::App *damaged = app.add_subcommand("damaged", "Damaged models only")->fallthrough();
  const CLI::App *texts = app.add_subcommand("texts", "Damaged IR text only")->fallthrough();
  const CLI::App *graphs = app.add_subcommand("graphs", "Random graphs only")->fallthrough();
  CLI11_PARSE(app, argc, argv);
  setenv("POPART_NUM_THREADS", "2", 0);
  setenv("POPART_LOG_LEVEL", "ERR", 0);
  popart::fuzz::installGuard(8L << 30);
  const bool all = !damaged->parsed() && !texts->parsed() && !graphs->parsed();
  int64_t findings = 0;
  if (all || damaged->parsed()) findings += popart::fuzz::damagedModels(settings);
  if (all || texts->parsed()) findings += popart::fuzz::damagedTexts(settings);
  if (all || graphs->parsed()) findings += popart::fuzz::randomGraphs(settings);
  std::cout << findings << " findings" << std::endl;
  return findings == 0 ? 0 : 1;
}
