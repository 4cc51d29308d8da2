// moxie train by several ranks, as mpirun starts them.
#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "tests/cli/process.h"
#include "tests/skip.h"

namespace {

using moxie::test::contains;
using moxie::test::Outcome;
using moxie::test::read_file;
using moxie::test::Workshop;

/// Open MPI refuses root, and more ranks than processors, unless told; nothing leaves this machine.
constexpr const char* kEnvironment =
    "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
    "OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl_tcp_if_include=lo HYDRA_LAUNCHER=fork MOXIE_CACHE_DIR=$PWD/cache; ";
constexpr const char* kProgram = "'" MOXIE_PROGRAM "'";

bool has_plugin() {
  return std::filesystem::exists(std::filesystem::path(MOXIE_PROGRAM).parent_path().parent_path() /
                                 "lib/libmoxie_mpi.so");
}

/// Whether ranks can be started here; says so where they cannot.
bool has_mpi() {
  if (!has_plugin())
    moxie::test::skip("moxie was built without MPI; apt-get install libopenmpi-dev openmpi-bin, then build again");
  const bool has_mpirun = std::system("command -v mpirun > /dev/null") == 0;
  if (!has_mpirun) moxie::test::skip("there is no mpirun; apt-get install openmpi-bin");
  return has_plugin() && has_mpirun;
}

Outcome on_ranks(const Workshop& shop, int ranks, const std::string& arguments) {
  return shop.shell(kEnvironment + ("timeout 120 mpirun -n " + std::to_string(ranks)) + " " + kProgram + " train " +
                    arguments);
}

std::string model_of(const Workshop& shop, const std::string& run) {
  return read_file(shop.path(run + "/model.safetensors"));
}

void check_refusal(const Outcome& outcome, const std::string& message) {
  CAPTURE(outcome.err);
  CHECK(outcome.code != 0);
  CHECK(contains(outcome.err, message));
}

/// The same model on 1, 2 and 4 ranks, and of a process without MPI.
void check_same_bits(const std::string& arguments) {
  const Workshop shop;
  CAPTURE(arguments);
  const Outcome alone = shop.shell(kEnvironment + (kProgram + (" train " + arguments + " --out alone")));
  CAPTURE(alone.err);
  REQUIRE(alone.code == 0);
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    const std::string run = "run" + std::to_string(ranks);
    const Outcome outcome = on_ranks(shop, ranks, arguments + " --out " + run);
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    CHECK(model_of(shop, run) == model_of(shop, "alone"));
    CHECK(!model_of(shop, run).empty());
    CHECK(contains(outcome.out, "\nranks     " + std::to_string(ranks)) == (ranks > 1));
  }
}

}  // namespace

TEST_SUITE("mpi") {
  TEST_CASE("models have the same bits on any number of ranks") {
    if (!has_mpi()) return;
    check_same_bits("gpn --data synthetic --epochs 2 --layers 6 --micro-batches 8");
    check_same_bits(
        "mlp --data synthetic --epochs 2 --batch 100 --micro-batches 4");  // parts and batches of unequal sizes
    check_same_bits(
        "probact --data synthetic --epochs 2 --evaluation ensemble --samples 2 --micro-batches 4");  // draws
    check_same_bits("sp-gru --data moving-mnist --data-dir '" MOXIE_SHARED_DIR
                    "/data' --sequences 20 --frames 4 --side 28 --hidden 4 "
                    "--batch 6 --epochs 2 --micro-batches 4");
  }

  TEST_CASE("a checkpoint goes on with another number of ranks") {
    if (!has_mpi()) return;
    const Workshop shop;
    CHECK(on_ranks(shop, 1, "gpn --data synthetic --layers 6 --epochs 4 --out whole").code == 0);
    CHECK(on_ranks(shop, 2, "gpn --data synthetic --layers 6 --epochs 1 --out run").code == 0);
    CHECK(on_ranks(shop, 4, "--resume run --epochs 2").code == 0);
    CHECK(on_ranks(shop, 1, "--resume run --epochs 3").code == 0);
    CHECK(shop.shell(kEnvironment + (kProgram + std::string(" train --resume run --epochs 4"))).code == 0);
    CHECK(model_of(shop, "run") == model_of(shop, "whole"));
  }

  TEST_CASE("the fast sum trains, on numbers of ranks that are no powers of two as well") {
    if (!has_mpi()) return;
    const Workshop shop;
    const Outcome outcome = on_ranks(shop, 3, "mlp --data synthetic --epochs 1 --reduce fast --out run");
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.out, "\nranks     3"));
  }

  TEST_CASE("ranks that do not start alike say what differs") {
    if (!has_mpi()) return;
    const Workshop shop;
    const std::string first = "mlp --data synthetic --out run", second = first + " --rate 0.02";
    check_refusal(on_ranks(shop, 1, first + " : -n 1 " + kProgram + " train " + second),
                  "rank 1 was started otherwise than rank 0: --rate is 0.02, but 0.01 on rank 0.");
    shop.write("a.csv", "x,y\n1,2\n2,3\n3,5\n4,4\n5,6\n6,8\n7,7\n8,9\n");
    shop.write("b/a.csv", "");
    CHECK(shop.shell("mkdir b && sed s/9/10/ a.csv > b/a.csv").code == 0);
    const std::string table = "mlp --data csv:a.csv --target y --batch 4 --micro-batches 2 --out run";
    check_refusal(on_ranks(shop, 1, table + " : -n 1 -wdir b " + kProgram + " train " + table),
                  "the data is csv:a.csv");
    CHECK(!std::filesystem::exists(shop.path("run")));
  }

  TEST_CASE("what ranks cannot do is refused with the remedy, once") {
    if (!has_mpi()) return;
    const Workshop shop;
    const Outcome three = on_ranks(shop, 3, "mlp --data synthetic --out run");
    check_refusal(three, "moxie: 3 ranks cannot share a step with the same bits as one: start 1, 2, 4, .., at most 8");
    CHECK(three.err.find("moxie:") == three.err.rfind("moxie:"));
    check_refusal(on_ranks(shop, 4, "mlp --data synthetic --batch 64 --out run"), "--micro-batches 4");
    check_refusal(on_ranks(shop, 2, "mlp --data synthetic --ranks 4 --out run"), "--ranks 4, but 2 started");
    check_refusal(on_ranks(shop, 2, "mlp --data synthetic --folds 3 --out run"), "do not need each other");
    check_refusal(on_ranks(shop, 2, "mlp --data nothing --out run"), "moxie: there is no data set 'nothing'");
    check_refusal(on_ranks(shop, 2, "mlp --data synthetic --device auto --out run"),
                  "give --device cpu, or --device cuda");
    check_refusal(on_ranks(shop, 2, "mlp --data synthetic --device cuda:0 --out run"), "each on a GPU of its own");
  }

  TEST_CASE("a NaN ends all ranks with an error that names one of them, the step and the sample") {
    if (!has_mpi()) return;
    const Workshop shop;
    shop.write("m.mox",
               "dim S dynamic\nindex s:S\ninput x[S,1], target[S,1]\nparameter w init ones\n"
               "predict mean[s] = w*x[s,0]\n"
               "loss error = sum[s]((mean[s] - target[s,0])^2 + 0.01*sqrt(3 - target[s,0]))/S\n");
    std::string table = "x,y\n";
    for (int k = 0; k < 200; ++k) table += std::to_string(k % 7) + "," + (k % 40 == 37 ? "100" : "1") + "\n";
    shop.write("t.csv", table);
    const Outcome outcome =
        on_ranks(shop, 2, "m.mox --data csv:t.csv --target y --batch 64 --micro-batches 2 --out run");
    CAPTURE(outcome.err);
    CHECK(outcome.code != 0);
    CHECK(contains(outcome.err, "moxie: step "));
    CHECK(contains(outcome.err, "nan on rank "));
    CHECK(contains(outcome.err, "are saved"));
  }

  TEST_CASE("a rank that hangs ends all of them, with an error that names it") {
    if (!has_mpi()) return;
    const Workshop shop;
    const Outcome outcome =
        shop.shell(kEnvironment +
                   std::string("timeout 60 mpirun -n 2 sh -c 'echo $$ > "
                               "pid${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec \"$@\"' sh ") +
                   kProgram +
                   " train mlp --data synthetic --epochs 1000000 --patience 1000000 --rank-timeout 2 --out run & "
                   "ranks=$!; while [ "
                   "! -s run/metrics.jsonl ]; do sleep 0.1; done; kill -STOP $(cat pid1); wait $ranks");
    check_refusal(outcome, "rank 1 did not answer rank 0 for 2.");
    CHECK(contains(outcome.err, "moxie: step "));
    CHECK(on_ranks(shop, 1, "--resume run --max-time 0.001").code == 0);
  }

  TEST_CASE("killing ranks at random moments loses nothing") {
    if (!has_mpi()) return;
    const char* chosen = std::getenv("TEST_KILLS");
    const int kills = chosen != nullptr ? std::atoi(chosen) : 10;
    const Workshop shop;
    const std::string options = "gpn --data synthetic --layers 6 --epochs " + std::to_string(25 * kills) +
                                " --patience 100000 --save-every 0.05";
    REQUIRE(on_ranks(shop, 1, options + " --out whole").code == 0);
    std::mt19937 random(19);
    int killed = 0;
    for (int attempt = 0; attempt < kills; ++attempt) {
      const int ranks = std::array{1, 2, 4}[random() % 3];
      const int victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
      const double moment = static_cast<double>(random() % 1500) / 1000;  // seconds after its start
      const bool exists = std::filesystem::exists(shop.path("run/checkpoint.safetensors"));
      if (!exists) std::filesystem::remove_all(shop.path("run"));  // made, and killed before the first checkpoint
      const std::string pid = "pid" + std::to_string(victim);
      const Outcome outcome = shop.shell(kEnvironment + ("rm -f pid*; timeout 60 mpirun -n " + std::to_string(ranks)) +
                                         " sh -c 'echo $$ > pid${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec \"$@\"' sh " +
                                         kProgram + " train " + (exists ? "--resume run" : options + " --out run") +
                                         " & ranks=$!; while [ ! -s " + pid + " ]; do sleep 0.05; done; sleep " +
                                         std::to_string(moment) + "; kill -KILL $(cat " + pid + "); wait $ranks");
      CAPTURE(outcome.err);
      CHECK(!contains(outcome.err, "damaged"));
      if (outcome.code == 0) break;  // it was over before
      ++killed;
    }
    MESSAGE(killed, " of ", kills, " runs were killed before their end");
    CHECK(killed > 0);
    CHECK(on_ranks(shop, 2, "--resume run").code == 0);
    CHECK(model_of(shop, "run") == model_of(shop, "whole"));
  }
}

TEST_SUITE("gpus") {
  TEST_CASE("every rank of a machine trains on a GPU of its own, to the same bits") {
    if (!has_mpi()) return;
    const Workshop shop;
    const std::string arguments = "gpn --data synthetic --epochs 1 --layers 4 --micro-batches 2 --device cuda --out ";
    const Outcome alone = shop.shell(kEnvironment + (kProgram + (" train " + arguments + "alone")));
    if (contains(alone.err, "could not be loaded") || contains(alone.err, "finds no GPU"))
      return moxie::test::skip("there is no GPU: " + alone.err);
    CAPTURE(alone.err);
    REQUIRE(alone.code == 0);
    const Outcome both = on_ranks(shop, 2, arguments + "both");
    if (contains(both.err, "there is no device cuda:1")) return moxie::test::skip("there is one GPU: " + both.err);
    CAPTURE(both.err);
    CHECK(both.code == 0);
    CHECK(model_of(shop, "both") == model_of(shop, "alone"));
    CHECK(!model_of(shop, "both").empty());
    check_refusal(on_ranks(shop, 4, "gpn --data synthetic --layers 4 --device cuda --out four"),
                  "there is no device cuda:");
  }
}

TEST_CASE("a process that mpirun started, without an MPI that knows of it, says what to do") {
  const Workshop shop;
  const Outcome outcome = shop.shell("PMI_SIZE=2 " + std::string(kProgram) + " train mlp --data synthetic --out run");
  check_refusal(outcome, has_plugin() ? "2 ranks were started (PMI_SIZE=2), but moxie's MPI knows of 1"
                                      : "Install MPI (Debian: libopenmpi-dev and openmpi-bin)");
  check_refusal(shop.shell(kProgram + std::string(" train mlp --data synthetic --ranks 2 --out run")),
                "start as many by mpirun -n 2 moxie train");
}
