#!/usr/bin/env bash
# CloudSim Plus 8.5.5: under its "completely fair" scheduler, of three equal jobs on one CPU only the first is finished.
#
# Guess:   CloudletSchedulerCompletelyFair models CFS: three equal jobs of 10 s on one CPU have a third each and end
#          after some 30 s, as they do under CloudletSchedulerTimeShared.
# Happens: The first runs for 10 s without a break, and the second then has 3.9 s. At 14 s the simulator has no event left
#          and stops, with a warning in the log and no error. The third has had nothing; both are QUEUED and unfinished.
#          An end of 14 s is noted for the first, whose log line says 10.1 s.
# Input:   one host and one virtual machine with one CPU of 1000 MIPS, three cloudlets of 10000 MI and equal priority;
#          schedulers as they come. Wants JDK 17 and Maven.
# Seen:    2026-11-29: SUCCESS 14.00 10000, QUEUED -1.00 3900, QUEUED -1.00 0; time-shared: SUCCESS 30.23 10000 thrice
set -euo pipefail
. "$(dirname "$0")/common.bash"

cat >"$work/pom.xml" <<'X'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>findings</groupId>
  <artifactId>fair</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.cloudsimplus</groupId>
      <artifactId>cloudsimplus</artifactId>
      <version>8.5.5</version>
    </dependency>
  </dependencies>
</project>
X
cat >"$work/Fair.java" <<'J'
import java.util.List;
import java.util.Locale;
import java.util.stream.IntStream;
import org.cloudsimplus.brokers.DatacenterBrokerSimple;
import org.cloudsimplus.cloudlets.Cloudlet;
import org.cloudsimplus.cloudlets.CloudletSimple;
import org.cloudsimplus.core.CloudSimPlus;
import org.cloudsimplus.datacenters.DatacenterSimple;
import org.cloudsimplus.hosts.Host;
import org.cloudsimplus.hosts.HostSimple;
import org.cloudsimplus.resources.Pe;
import org.cloudsimplus.resources.PeSimple;
import org.cloudsimplus.schedulers.cloudlet.CloudletScheduler;
import org.cloudsimplus.schedulers.cloudlet.CloudletSchedulerCompletelyFair;
import org.cloudsimplus.schedulers.cloudlet.CloudletSchedulerTimeShared;
import org.cloudsimplus.utilizationmodels.UtilizationModelFull;
import org.cloudsimplus.vms.VmSimple;

class Fair {
    static void run(String name, CloudletScheduler scheduler) {
        var simulation = new CloudSimPlus();
        List<Pe> cpus = List.of(new PeSimple(1000));
        List<Host> hosts = List.of(new HostSimple(4096, 10000, 100000, cpus));
        new DatacenterSimple(simulation, hosts);
        var broker = new DatacenterBrokerSimple(simulation);
        broker.setVmDestructionDelay(100);
        var machine = new VmSimple(1000, 1);
        machine.setRam(1024).setBw(1000).setSize(1000).setCloudletScheduler(scheduler);
        broker.submitVm(machine);
        List<Cloudlet> jobs = IntStream.range(0, 3)
            .<Cloudlet>mapToObj(i -> new CloudletSimple(10000, 1).setUtilizationModelCpu(new UtilizationModelFull())).toList();
        broker.submitCloudletList(jobs);
        simulation.start();
        for (var job : jobs)
            System.out.printf(Locale.ROOT, "%s %s %.2f %d%n", name, job.getStatus(), job.getFinishTime(), job.getFinishedLengthSoFar());
    }

    public static void main(String[] arguments) {
        run("fair", new CloudletSchedulerCompletelyFair());
        run("shared", new CloudletSchedulerTimeShared());
    }
}
J
plugin=org.apache.maven.plugins:maven-dependency-plugin:3.6.1
(cd "$work" && mvn -q -B $plugin:copy-dependencies -DoutputDirectory=lib) >"$work/mvn.log" 2>&1 || {
	tail -n 3 "$work/mvn.log" >&2
	exit 2
}
(cd "$work" && javac -cp 'lib/*' Fair.java && java -cp 'lib/*:.' Fair >out.txt)
seen() { sed -n "s/^\(.*\[0;39m\)\?$1 //p" "$work/out.txt" | xargs; }

echo "CloudSim Plus 8.5.5, three equal jobs: status, end in seconds, million instructions done"
expect "completely fair" "SUCCESS 14.00 10000 QUEUED -1.00 3900 QUEUED -1.00 0" "$(seen fair)"
expect "time-shared" "SUCCESS 30.23 10000 SUCCESS 30.23 10000 SUCCESS 30.23 10000" "$(seen shared)"
expect "end of the first in the log" "10.10:" "$(grep -om 1 '[0-9.]*: .*Cloudlet 0 finished' "$work/out.txt" | cut -d " " -f 1)"
expect "warning in the log" "It had a total of 2 cloudlets (running + waiting)" "$(grep -o 'It had a total of [^.]*' "$work/out.txt")"
